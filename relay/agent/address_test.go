package agent

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"80":                  "[127.0.0.1:80 [::1]:80]",
		"localhost!8080":      "[127.0.0.1:8080 [::1]:8080]",
		"10.0.0.1!65535":      "[10.0.0.1:65535]",
		"::1!22":              "[[::1]:22]",
		"fe80::1%eth0!22":     "[[fe80::1%eth0]:22]",
		"":                    "want ADDR!PORT or PORT, a port",
		"!":                   "a port from 1 to 65535",
		"0":                   "a port from 1 to 65535",
		"65536":               "a port from 1 to 65535",
		"-1":                  "a port from 1 to 65535",
		"+80":                 "a port from 1 to 65535",
		"http":                "a port from 1 to 65535",
		"127.0.0.1":           "a port from 1 to 65535",
		"127.0.0.1!":          "a port from 1 to 65535",
		"127.0.0.1:80":        "a port from 1 to 65535",
		"!80":                 "an IP address or localhost",
		"127.0.0.256!80":      "an IP address or localhost",
		"example.com!80":      "an IP address or localhost",
		"tcp!127.0.0.1!80":    "an IP address or localhost",
		"127.0.0.1!80!90":     "an IP address or localhost",
		"127.0.0.1\x00!80":    "an IP address or localhost",
		" 80":                 "a port from 1 to 65535",
		"999999999999999999!": "a port from 1 to 65535",
	} {
		places, err := parseAddress(text)
		got := fmt.Sprint(places)
		if err != nil {
			got = err.Error()
		}
		if err == nil && got != want || err != nil && !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzParseAddress holds that what is taken for an address is one, and that it
// means the same when it is shown.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"80", "localhost!80", "::1!22", "127.0.0.1!1", "a!b", "::ffff:1.2.3.4!9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		places, err := parseAddress(s)
		if err != nil {
			if len(places) > 0 {
				t.Errorf("%q: %v and %v", s, places, err)
			}
			return
		}
		for _, p := range places {
			if p.Port() == 0 || !p.IsValid() {
				t.Errorf("%q: %v", s, p)
			}
			shown := showAddress(net.TCPAddrFromAddrPort(p))
			again, err := parseAddress(shown)
			if err != nil || again[0].Addr() != p.Addr().Unmap() || again[0].Port() != p.Port() {
				t.Errorf("%q is shown as %q: %v, %v", s, shown, again, err)
			}
		}
	})
}
