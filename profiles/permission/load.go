package permission

import (
	"fmt"
	"path/filepath"

	"hutch/fs"
)

// Load returns the built-in profile of a name, or the profile in the file of an
// absolute path. Nothing of a file that is no profile is told.
func Load(nameOrPath string) (*Profile, error) {
	if p := Builtin(nameOrPath); p != nil {
		return p, nil
	}
	if !filepath.IsAbs(nameOrPath) {
		return nil, fmt.Errorf("%w: permission profile %.64q is not %s, not %s and no absolute path of a file", fs.ErrInvalid, nameOrPath, BuiltinNone, BuiltinNetwork)
	}
	text, _, err := fs.ReadRegular(nameOrPath, MaxText+1, nil)
	if err != nil {
		return nil, fmt.Errorf("permission profile: %w", err)
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nameOrPath, err)
	}
	return p, nil
}
