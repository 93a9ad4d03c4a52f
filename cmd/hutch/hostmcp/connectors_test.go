package hostmcp

import (
	"encoding/json"
	"testing"
)

// TestSettings has settings be what JSON has for what TOML writes.
func TestSettings(t *testing.T) {
	settings := map[string]any{}
	for _, s := range [][2]string{
		{`args`, `["a", "b c"]`}, {`disabled`, `true`}, {`timeout`, `7`}, {`env."A.B"`, `"***"`}, {`env.C`, `"x\u007f"`}, {`hutch.at`, `1979-05-27`},
	} {
		put(settings, keyParts(s[0]), s[1])
	}
	got, err := json.Marshal(settings)
	if want := `{"args":["a","b c"],"disabled":true,"env":{"A.B":"***","C":"x` + "\x7f" + `"},"hutch":{"at":"1979-05-27"},"timeout":7}`; string(got) != want || err != nil {
		t.Errorf("the settings are %s, %v, want %s", got, err, want)
	}
	if parts := keyParts(`"a.b".command`); len(parts) != 2 || parts[0] != "a.b" {
		t.Errorf("the key is %q", parts)
	}
}
