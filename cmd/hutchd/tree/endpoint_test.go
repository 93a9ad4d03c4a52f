package tree

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
		{profiles.HTTP{Allow: []string{"wiki"}}, nil},
		{profiles.HTTP{MaxBytes: 1 << 20}, []string{"-max-body", "1048576"}},
		{profiles.HTTP{Timeout: 4 * time.Second}, []string{"-timeout", "4s"}},
		{profiles.HTTP{MaxBytes: 7, Timeout: time.Minute}, []string{"-max-body", "7", "-timeout", "1m0s"}},
	} {
		list := servers(&profiles.Profile{HTTP: tt.http})
		if len(list) != 1 || list[0].Name != wire.Local || !list[0].Enabled || !slices.Equal(list[0].Args, tt.args) ||
			!slices.Equal(list[0].AllowPrivate, tt.http.Allow) {
			t.Errorf("%+v: %+v", tt.http, list)
		}
	}
	if list := servers(&profiles.Profile{}); list != nil {
		t.Errorf("without settings: %+v", list)
	}
}
