package process

import (
	"cmp"
	"os"
	"runtime"
	"strings"
)

// Features returns what this machine's processors can do, by the system's names;
// its architecture alone where the system tells no more.
func Features() []string {
	info := cpuinfo()
	return append([]string{runtime.GOARCH}, strings.Fields(cmp.Or(info["flags"], info["Features"]))...)
}

// Model returns which processors this machine has, by their maker's numbers.
func Model() string {
	info := cpuinfo()
	return strings.Join([]string{info["vendor_id"], info["cpu family"], info["model"], info["stepping"]}, " ")
}

// cpuinfo returns what the system tells of the first processor, by its keys.
func cpuinfo() map[string]string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	first, _, _ := strings.Cut(string(data), "\n\n")
	info := make(map[string]string)
	for line := range strings.Lines(first) {
		key, value, _ := strings.Cut(line, ":")
		info[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return info
}
