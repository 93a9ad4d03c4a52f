package main

import "testing"

func TestParseMapping(t *testing.T) {
	for text, want := range map[string]mapping{
		"8080":                {"127.0.0.1:8080", "8080"},
		"8080:80":             {"127.0.0.1:8080", "80"},
		"0:80":                {"127.0.0.1:0", "80"},
		"127.0.0.2:8080:80":   {"127.0.0.2:8080", "80"},
		"[::1]:8080:80":       {"[::1]:8080", "80"},
		"0.0.0.0:65535:65535": {"0.0.0.0:65535", "65535"},
		"localhost:1:2":       {"localhost:1", "2"},
		"":                    {},
		":":                   {},
		":80":                 {},
		"80:":                 {},
		"80:0":                {},
		"0":                   {},
		"http:80":             {},
		"65536:1":             {},
		"1:65536":             {},
		"::1:80:80":           {},
		":80:80":              {},
		"a:b:80:80":           {},
		"8080:80/tcp":         {},
	} {
		got, err := parseMapping(text)
		if got != want || (err == nil) != (want != mapping{}) {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
}
