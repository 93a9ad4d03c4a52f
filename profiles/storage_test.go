package profiles

import (
	"strings"
	"testing"
)

func TestStorage(t *testing.T) {
	const s3 = "[storage]\nprovider = \"s3\"\n[storage.s3]\nbucket = \"b\"\naccess_key = \"ak\"\nsecret_key = \"sk\"\n"
	for text, want := range map[string]string{
		s3 + "endpoint = \"http://h:1\"\nprefix = \"a/b\"\n":   "",
		"[storage]\nprovider = \"local\"\n":                    "",
		"[storage]\nprovider = \"tape\"\n":                     `line 2: "tape" is no provider: they are local s3`,
		"[storage]\nquota = \"1MiB\"\n":                        "line 2: a quota goes with provider s3",
		s3:                                                     "line 2: provider s3 needs storage.s3.endpoint",
		s3 + "endpoint = \"h:1\"\n":                            "line 7: \"h:1\" is no URL",
		s3 + "endpoint = \"http://u:p@h\"\n":                   "line 7: the endpoint has an @: keys go",
		s3 + "endpoint = \"https://h\"\nprefix = \"a/../b\"\n": `has a part ".."`,
		"[storage.s3]\nendpoint = \"https://h\"\n":             "goes with provider s3",
		s3 + "endpoint = \"https://h\"\nkey = \"x\"\n":         "unknown key",
	} {
		_, err := Parse("p", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}

	// The keys are shown nowhere, however short they are.
	h := newHouse(t)
	lay(t, h.Store, map[string]string{"dev.toml": s3 + "endpoint = \"https://h\"\n"})
	shown, err := h.Show("dev")
	if err != nil || strings.Contains(shown, `"ak"`) || strings.Contains(shown, `"sk"`) || !strings.Contains(shown, "storage.s3.secret_key") {
		t.Errorf("%s %v", shown, err)
	}
}
