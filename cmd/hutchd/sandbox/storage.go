package sandbox

import (
	"path"

	"hutch/aggd/storage/remote"
	"hutch/fs"
	"hutch/mcpd/ledger"
	"hutch/profiles"
)

// setStorage has the tools fs.* work where the profile says. Each VM has a folder
// of the bucket to itself, by its name.
func (v *Sandbox) setStorage(s profiles.Storage) {
	v.storeMu.Lock()
	defer v.storeMu.Unlock()
	if !v.stores {
		return
	}
	b := s.Bucket
	b.Prefix = path.Join(b.Prefix, v.Name())
	was := v.store
	switch {
	case s.Provider != "s3":
		v.store = nil
		v.MCP.SetStorage(nil)
	case was != nil && was.Bucket() == b:
		return
	default:
		v.store = remote.Start(remote.Config{
			Path: v.service.Locald, Bucket: b, Log: v.AggLog(),
			Down: func(err error) { v.Tell(ledger.VMs, v.NewEvent("storage.died", fs.Text(err))) },
		})
		v.MCP.SetStorage(v.store)
	}
	if was != nil {
		was.Close()
	}
}

// storagePID returns the id of the process that has the storage, 0 if there is none.
func (v *Sandbox) storagePID() int {
	v.storeMu.Lock()
	defer v.storeMu.Unlock()
	if v.store == nil {
		return 0
	}
	return v.store.PID()
}

// stopStorage ends the process that has the storage, if there is one. The tools
// have it as it is, closed, until the VM begins again.
func (v *Sandbox) stopStorage() {
	v.storeMu.Lock()
	defer v.storeMu.Unlock()
	v.stores = false
	if v.store != nil {
		v.store.Close()
		v.store = nil
	}
}
