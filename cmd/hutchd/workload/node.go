package workload

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"syscall"

	"hutch/profiles/runconfig"
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
	if version := s.nodeOf(p); !asksProxy(version) {
		fmt.Fprintf(s.AggLog(), "%s: the fetch of node %s asks no proxy, so what the server fetches by it fails (EAI_AGAIN) and is not told as denied: "+newerNode+"\n",
			s.Name, version)
	}
}

// newerNode is what is to be done about that.
const newerNode = "install node 22.21, 24 or newer"

// nodeOf returns the version of Node that a package was installed with.
func (s *Server) nodeOf(p pack) string { return s.w.text(ofServer(s.Name), p.place()+"/"+nodeFile) }

// unresolved is what Node says of a host whose name it looked up by itself.
var unresolved = regexp.MustCompile(`\b(EAI_AGAIN|ENOTFOUND)\b`)

// blamed is withNode by the Node that the server's package was installed with, if it is one.
func (s *Server) blamed(c *runconfig.Server, err error) error {
	if p, ok := packOf(c.Source); ok && err != nil {
		return withNode(s.nodeOf(p), err)
	}
	return err
}

// withNode adds to why a server does not run that its Node asks no proxy, if it has not
// found a host by its name, which only the proxy does.
func withNode(version string, err error) error {
	if asksProxy(version) || !unresolved.MatchString(err.Error()) {
		return err
	}
	return fmt.Errorf("%w; the fetch of node %s asks no proxy: "+newerNode, err, version)
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
