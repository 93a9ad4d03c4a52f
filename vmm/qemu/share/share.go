// Package share serves a virtual machine's guest the folders of the host that it
// sees, over 9P on port 5001: its workspace, those that the image "host" shows,
// which are read-only, and those that its config mounts.
//
//	work/         the workspace
//	view0/ …      the image's folders, in its order
//	mount0/ …     the config's, those that are below others after them
//
// No path leads out of a folder (fs/folder), whatever the guest asks for.
package share

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"hutch/fs/folder"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
	"hutch/relay/boot"
	"hutch/vmm"
)

// workspace is where the guest has its workspace.
const workspace = "/workspace"

// A Share is what one machine is served. Its methods may be called concurrently.
type Share struct {
	list    []boot.Share
	folders []*folder.Folder
	gate    *gate
	server  *ninep.Server
	room    *room
	opened  int // files that the guest has open; guarded by the room's mu
}

// What a guest may have read at once.
const (
	maxLists   = 4                 // directories
	maxEntries = client.MaxEntries // names in each
)

// New opens the folders that the machine of s sees.
func New(s vmm.Spec) (*Share, error) {
	sh := &Share{gate: newGate(), room: &descriptors}
	sh.server = &ninep.Server{Root: top{s: sh}, Each: sh.gate.enter, Open: sh.enter, Lists: make(chan struct{}, maxLists)}
	err := sh.open(s.Work, boot.Share{Name: "work", Path: workspace})
	for i, b := range s.Image.Binds {
		if err == nil {
			err = sh.open(b.Host, boot.Share{Name: fmt.Sprint("view", i), Path: b.Guest, ReadOnly: true})
		}
	}
	for i, m := range inward(s.Mounts) {
		if err == nil {
			err = sh.open(m.Host, boot.Share{Name: fmt.Sprint("mount", i), Path: m.Guest, ReadOnly: m.ReadOnly, Live: true})
		}
	}
	if err != nil {
		sh.Close()
		return nil, err
	}
	return sh, nil
}

// inward returns mounts so that one below another comes after it.
func inward(list []vmm.Mount) []vmm.Mount {
	return slices.SortedStableFunc(slices.Values(list), func(a, b vmm.Mount) int {
		return strings.Count(a.Guest, "/") - strings.Count(b.Guest, "/")
	})
}

func (s *Share) open(dir string, as boot.Share) error {
	f, err := folder.Open(dir, as.Name)
	if err == nil {
		f.MaxEntries = maxEntries
		f.ReadOnly = as.ReadOnly
		s.list, s.folders = append(s.list, as), append(s.folders, f)
	}
	return err
}

// List says what the guest is to mount.
func (s *Share) List() []boot.Share { return s.list }

// Serve serves the connection c until that is lost or ctx done.
func (s *Share) Serve(ctx context.Context, c net.Conn) error {
	return s.server.ServeConn(ctx, c)
}

// Pause lets what is under way end, and holds up what comes then: until
// Resume the folders stay as they are.
func (s *Share) Pause() { s.gate.shut() }

// Resume goes on with what was held up.
func (s *Share) Resume() { s.gate.open() }

// Close refuses what was held up and what comes, waits for what is under
// way, and closes the folders.
func (s *Share) Close() error {
	s.gate.close()
	var errs []error
	for _, f := range s.folders {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
