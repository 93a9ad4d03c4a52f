package sandbox

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"hutch/vmm"
)

// A guest that is to be suspended may say so much of its commands, and for so
// long.
const (
	keepLimit = 5 * time.Second
	keepMost  = 4 << 20 // bytes
	keepEach  = 1 << 10 // bytes that a command counts for, however little it says
)

// Suspend ends the VM's machine and keeps its memory on the disk, and what is
// known of its commands.
func (v *Sandbox) Suspend(ctx context.Context) error {
	v.keepExecs(ctx)
	return v.VM.Suspend(ctx)
}

// keepExecs keeps what the guest says of its commands, for as long as it
// cannot be asked. What it does not tell in time, or is too much, is not known
// then.
func (v *Sandbox) keepExecs(ctx context.Context) {
	g, err := v.Guest()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	names, _ := g.Execs(ctx)
	left := keepMost
	for _, name := range names[:min(len(names), keepMost/keepEach)] {
		e, err := v.Exec(ctx, name)
		if err != nil {
			continue
		}
		kept := map[string]string{}
		left -= keepEach
		for _, file := range []string{"status", "cmd"} {
			if text, err := e.Read(ctx, file); err == nil && len(text) <= left {
				kept[file] = text
				left -= len(text)
			}
		}
		v.mu.Lock()
		e.kept = kept
		v.mu.Unlock()
	}
}

// keptText returns what a file of the exec said when its VM was suspended, if
// it is. A command that ran then is suspended, too.
func (e *Exec) keptText(file string) (string, bool) {
	if e.vm.State() != vmm.Suspended {
		return "", false
	}
	e.vm.mu.Lock()
	defer e.vm.mu.Unlock()
	text, ok := e.kept[file]
	if rest, ran := strings.CutPrefix(text, "running\n"); ran && file == "status" {
		text = string(vmm.Suspended) + "\n" + rest
	}
	return text, ok
}

// keptExecs returns the names of the commands that wait in a suspended VM, as
// far as this hutchd has met them; without a guest there are no others.
func (v *Sandbox) keptExecs() []string {
	if v.State() != vmm.Suspended {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Sorted(maps.Keys(v.execs))
}
