package process

import (
	"os"
	"runtime"
	"strings"
)

// Features returns what this machine's processors can do, by the system's names;
// its architecture alone where the system tells no more.
func Features() []string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		key, list, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); key == "flags" || key == "Features" {
			return append([]string{runtime.GOARCH}, strings.Fields(list)...)
		}
	}
	return []string{runtime.GOARCH}
}
