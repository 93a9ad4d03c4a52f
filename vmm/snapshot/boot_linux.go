package snapshot

import (
	"os"
	"strings"
)

// Boot returns what names this run of the host's kernel: "" if it has no name.
func Boot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
