package layer

import (
	"fmt"
	"path"
)

// Put gives the file called name in root the text, unless it has it: in one
// step, as VMs may be reading it, and as another file, as the old one may be a
// layer's. Folders that are missing on the way are made if make is set.
func Put(root, name, text string, make bool) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	in, err := t.in(name, make)
	if err != nil {
		return fmt.Errorf("image has no place for /%s: %w", name, err)
	}
	own := path.Base(name)
	if st, err := in.root.Lstat(own); err == nil && st.Mode().IsRegular() && st.Size() == int64(len(text)) {
		if old, err := in.root.ReadFile(own); err == nil && string(old) == text {
			return nil
		}
	}
	tmp := "." + own + ".new"
	in.root.Remove(tmp)
	err = in.root.WriteFile(tmp, []byte(text), 0o644)
	if err == nil {
		err = in.root.Chmod(tmp, 0o644) // whatever the umask
	}
	if err == nil {
		err = in.root.Rename(tmp, own)
	}
	if err != nil {
		in.root.Remove(tmp)
	}
	return err
}
