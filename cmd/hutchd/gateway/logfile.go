package gateway

import (
	"os"
	"path/filepath"
)

// A logFile is the path of a log file of the host, which the first write to it
// creates. It is not kept open: there is one for each VM, and not all have
// much to say.
type logFile string

func (path logFile) Write(p []byte) (int, error) {
	f, err := os.OpenFile(string(path), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return f.Write(p)
}

// AggLog is the aggregator's log, which has the proxy's as well.
func (g *Gateway) AggLog() logFile { return logFile(filepath.Join(g.cfg.Dir, "log", "agg")) }
