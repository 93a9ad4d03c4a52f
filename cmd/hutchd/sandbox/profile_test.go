package sandbox

import (
	"slices"
	"testing"
	"time"

	"hutch/aggd/wire"
	"hutch/profiles"
)

func TestLocalServer(t *testing.T) {
	for _, tt := range []struct {
		http profiles.HTTP
		args []string
	}{
		{profiles.HTTP{}, nil},
		{profiles.HTTP{Allow: []string{"wiki", "10.0.0.0/8"}}, []string{"-allow-private", "wiki,10.0.0.0/8"}},
		{profiles.HTTP{MaxBytes: 1 << 20}, []string{"-max-body", "1048576"}},
		{profiles.HTTP{Timeout: 4 * time.Second}, []string{"-timeout", "4s"}},
		{profiles.HTTP{MaxBytes: 7, Timeout: time.Minute}, []string{"-max-body", "7", "-timeout", "1m0s"}},
	} {
		list := servers(&profiles.Profile{HTTP: tt.http}, "/bin/locald")
		if len(list) != 1 || list[0].Name != wire.Local || !list[0].Enabled || !slices.Equal(list[0].Args, tt.args) ||
			list[0].Command != "/bin/locald" || !list[0].Confined || !list[0].Shared {
			t.Errorf("%+v: %+v", tt.http, list)
		}
	}
	if list := servers(&profiles.Profile{}, ""); list != nil {
		t.Errorf("without a program: %+v", list)
	}
}
