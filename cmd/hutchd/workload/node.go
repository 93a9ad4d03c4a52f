package workload

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"syscall"
)

// nodeFile has the version of Node that a package of npm was installed with, in its
// folder. The guest can write what it likes there.
const nodeFile = "node"

var nodeVersion = regexp.MustCompile(`^v([0-9]{1,4})\.([0-9]{1,4})\.[0-9]{1,4}$`)

// asksProxy tells whether the fetch of a version of Node asks the proxy that
// NODE_USE_ENV_PROXY has it ask. Of what is no version it says that it does.
func asksProxy(version string) bool {
	m := nodeVersion.FindStringSubmatch(version)
	if m == nil {
		return true
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major >= 24 || major == 22 && minor >= 21
}

// tellNode has the log say that what the server fetches may not reach the proxy, which
// would tell what was denied.
func (s *Server) tellNode(p pack) {
	version := s.w.text(ofServer(s.Name), p.folder()+"/"+nodeFile)
	if !asksProxy(version) {
		fmt.Fprintf(s.AggLog(), "%s: the fetch of node %s asks no proxy, so what the server fetches by it fails (EAI_AGAIN) and is not told as denied: install node 22.21, 24 or newer\n",
			s.Name, version)
	}
}

// text returns the beginning of a file of a sandbox's workspace, as long as a
// version's; "" if there is none.
func (w *Workloads) text(at place, file string) string {
	work, err := w.workspace(at)
	if err != nil {
		return ""
	}
	defer work.Close()
	f, err := work.OpenFile(inWorkspace(file), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, _ := io.ReadAll(io.LimitReader(f, 32))
	return string(text)
}
