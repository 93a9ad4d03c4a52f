package ninep

import (
	"fmt"
	"os"
	"path/filepath"
)

// DefaultAddress returns where hutchd listens for this user: /run/hutch/9p
// for root, else hutch/9p in the XDG runtime folder, or in a folder of
// /tmp where there is none.
func DefaultAddress() string {
	if os.Getuid() == 0 {
		return "unix!/run/hutch/9p"
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(dir) {
		dir = fmt.Sprintf("/tmp/hutch-%d", os.Getuid())
	}
	return "unix!" + filepath.Join(dir, "hutch", "9p")
}
