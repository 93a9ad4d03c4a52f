package main

import "testing"

// TestAsFlags has what is to be done to a server that is gone be said by flags.
func TestAsFlags(t *testing.T) {
	for text, want := range map[string]string{
		`it ended (it does not show /a: printf '%s\n' stop 'set volumes ["/b:/b","/a:/a:ro"]' start >servers/fs2/ctl): [sorry]`: "it ended (it does not show /a: add -v /b:/b -v /a:/a:ro): [sorry]",
		`printf '%s\n' stop 'set volumes '\''["/it'\'''\''s:/it'\'''\''s:ro"]'\''' start >servers/a/ctl`:                        `add -v '/it'\''s:/it'\''s:ro'`,
		`only you can show it: set volumes '["/a b:/a b"]', with :ro if it is only to read`:                                     "only you can show it: add -v '/a b:/a b', with :ro if it is only to read",
		`only you can show it: set volumes '["/it''s:/a"]', with :ro if it is only to read`:                                     `only you can show it: add -v '/it'\''s:/a', with :ro if it is only to read`,
		"it ended": "it ended",
		`printf '%s\n' stop 'set volumes [' start >servers/a/ctl`: `printf '%s\n' stop 'set volumes [' start >servers/a/ctl`,
	} {
		if got := asFlags(text); got != want {
			t.Errorf("%s\nis %s\nwant %s", text, got, want)
		}
	}
}
