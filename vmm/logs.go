package vmm

import (
	"path/filepath"

	"hutch/fs"
)

// Of what config's records says, the ledger has most, and each log a part.
const logShare = 16

// logNames are the files in a VM's folder log.
var logNames = []string{"serial", "process", "agg"}

// LedgerLimit returns how large the VM's ledger may be.
func (v *VM) LedgerLimit() int64 {
	n := v.Config().Records
	return n - n/logShare*int64(len(logNames))
}

// cutLogs drops the oldest part of logs that are too large. The guest can
// write to them as it likes.
func (v *VM) cutLogs() {
	limit := v.Config().Records / logShare
	for _, name := range logNames {
		fs.CutLog(v.path(filepath.Join("log", name)), limit)
	}
}
