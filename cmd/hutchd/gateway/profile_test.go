package gateway

import (
	"slices"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/mcpd/policy"
	"hutch/profiles"
)

func TestLocalServer(t *testing.T) {
	policyOf := func(c policy.Config) *policy.Policy {
		p, err := policy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tt := range []struct {
		http   profiles.HTTP
		policy policy.Config
		args   []string
	}{
		{args: nil},
		{policy: policy.Config{Default: policy.Block, Deny: []string{"x"}, Capabilities: []policy.Capability{{Name: "c", Tools: []string{"*"}}}}},
		{policy: policy.Config{Capabilities: []policy.Capability{{Name: "c", Tools: []string{"*"}, Domains: []string{"a.example"}}}}, args: []string{"-stay"}},
		{profiles.HTTP{Allow: []string{"wiki", "10.0.0.0/8"}}, policy.Config{}, []string{"-allow-private", "wiki,10.0.0.0/8"}},
		{profiles.HTTP{MaxBytes: 1 << 20}, policy.Config{}, []string{"-max-body", "1048576"}},
		{profiles.HTTP{Timeout: 4 * time.Second}, policy.Config{}, []string{"-timeout", "4s"}},
		{profiles.HTTP{MaxBytes: 7, Timeout: time.Minute}, policy.Config{}, []string{"-max-body", "7", "-timeout", "1m0s"}},
	} {
		list := servers(&profiles.Profile{HTTP: tt.http, Policy: policyOf(tt.policy)}, "/bin/locald")
		if len(list) != 1 || list[0].Name != wire.Local || !list[0].Enabled || !slices.Equal(list[0].Args, tt.args) ||
			list[0].Command != "/bin/locald" || !list[0].Confined || !list[0].Shared {
			t.Errorf("%+v: %+v", tt.http, list)
		}
	}
	if list := servers(&profiles.Profile{}, ""); list != nil {
		t.Errorf("without a program: %+v", list)
	}
}
