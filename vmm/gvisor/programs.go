//go:build linux

package gvisor

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"hutch/fs"
	"hutch/vmm"
	"hutch/vmm/replica"
)

// What a machine began with it keeps: a checkpoint maps the guest's program
// and can be read by the runsc that wrote it alone, and either may be replaced
// on the host at any time. A folder of programs is in three places, and alike
// in all:
//
//	the driver's folder     what machines begin with now, a copy of cfg's
//	a machine's folder      what it began with, links to that
//	what Save has written   links to those of the machine
//
// So all that have the same share it, and it goes with the last of them.
const programs = "programs"

// What is in such a folder.
const (
	shownName = "bin" // the folder that the guest sees at guestBin
	guestName = "bin/hutch-guest"
	relayName = "bin/hutch-relay"
	runscName = "runsc"
	aboutName = "about" // JSON
)

// legacyGuest is where earlier drivers had the guest's program, in their
// folder: one for all, which was replaced when cfg's was.
const legacyGuest = "bin/hutch-guest"

// An about says what programs there are in a folder.
type about struct {
	Guest origin   `json:"guest"`
	Runsc origin   `json:"runsc"`
	Flags []string `json:"flags"` // that this runsc is given
	// Guessed says that an earlier driver started the machine, or saved it, and
	// that it began with this program of the guest is not known.
	Guessed bool `json:"guessed,omitempty"`
}

// sums returns what vmm is told of the programs.
func (a about) sums() map[string]string {
	list := map[string]string{"runsc": a.Runsc.Sum}
	if !a.Guessed {
		list["guest"] = a.Guest.Sum
	}
	maps.DeleteFunc(list, func(_, sum string) bool { return sum == "" })
	return list
}

// Programs returns what a machine begins with now. It writes nothing.
func (d *Driver) Programs() (map[string]string, error) {
	d.programsMu.Lock()
	defer d.programsMu.Unlock()
	guest, err := d.look(d.cfg.Guest)
	if err != nil {
		return nil, err
	}
	runsc, err := d.look(d.cfg.Runsc)
	return about{Guest: guest, Runsc: runsc}.sums(), err
}

// look returns what a program is now. It is read when it is another file than
// at the last look.
func (d *Driver) look(path string) (origin, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return origin{}, err
	}
	if l := d.looked[path]; fs.SameFile(l.info, fi) {
		return l.origin, nil
	}
	o, err := copyTo(io.Discard, path)
	if err == nil {
		d.looked[path] = looked{o, fi}
	}
	return o, err
}

// Programs returns what the machine began with.
func (m *machine) Programs() map[string]string {
	a, _ := readAbout(m.programs())
	return a.sums()
}

func (m *machine) programs() string { return filepath.Join(m.spec.Dir, programs) }

func readAbout(dir string) (a about, err error) {
	err = fs.ReadJSON(filepath.Join(dir, aboutName), &a)
	return a, err
}

// give makes the folder of programs for a new machine in dir.
func (d *Driver) give(dir string) error {
	d.programsMu.Lock()
	defer d.programsMu.Unlock()
	if _, err := d.lay(); err != nil {
		return err
	}
	return share(filepath.Join(d.cfg.Dir, programs), filepath.Join(dir, programs))
}

// lay sees to it that the driver's folder of programs is of cfg's.
func (d *Driver) lay() (about, error) {
	dir := filepath.Join(d.cfg.Dir, programs)
	guest, err := d.look(d.cfg.Guest)
	if err != nil {
		return about{}, fmt.Errorf("%w: no guest program at %s", fs.ErrNotExist, d.cfg.Guest)
	}
	runsc, err := d.look(d.cfg.Runsc)
	if err != nil {
		return about{}, fmt.Errorf("%w: no runsc program at %s", fs.ErrNotExist, d.cfg.Runsc)
	}
	now, err := readAbout(dir)
	if err == nil && now.Guest.Sum == guest.Sum && now.Runsc.Sum == runsc.Sum && slices.Equal(now.Flags, flags) {
		return now, nil
	}
	tmp, err := d.temporary()
	if err != nil {
		return about{}, err
	}
	defer os.RemoveAll(tmp)
	next := filepath.Join(tmp, "next")
	a := about{Flags: flags}
	err = makeFolder(next)
	if err == nil {
		a.Guest, err = keep(d.cfg.Guest, filepath.Join(next, guestName), filepath.Join(dir, guestName), now.Guest)
	}
	if err == nil {
		a.Runsc, err = keep(d.cfg.Runsc, filepath.Join(next, runscName), filepath.Join(dir, runscName), now.Runsc)
	}
	if err == nil {
		err = fs.WriteJSON(filepath.Join(next, aboutName), a, false)
	}
	if err != nil {
		return about{}, fmt.Errorf("programs: %w", err)
	}
	if err := os.Rename(dir, filepath.Join(tmp, "before")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return about{}, err
	}
	return a, os.Rename(next, dir)
}

// temporary makes a folder beside the driver's programs, in the place of those
// that a driver which was killed has left.
func (d *Driver) temporary() (string, error) {
	for _, path := range replica.Leftovers(d.cfg.Dir) {
		os.RemoveAll(path)
	}
	if err := os.MkdirAll(d.cfg.Dir, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp(d.cfg.Dir, ".new-")
}

func makeFolder(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, shownName), 0o755); err != nil {
		return err
	}
	return os.Symlink(filepath.Base(guestName), filepath.Join(dir, relayName))
}

// keep makes to what from is now: a link to kept, a copy of before, where the
// content is the same, else a copy, which is on the disk. It is never a link to
// from: whoever builds that may write into it.
func keep(from, to, kept string, before origin) (origin, error) {
	o, err := copyProgram(from, to)
	if err != nil || o.Sum != before.Sum {
		return o, err
	}
	if err := os.Remove(to); err != nil {
		return o, err
	}
	return o, shareFile(kept, to)
}

// reconstruct makes the folder of programs in dir for what an earlier driver
// started or saved, which had none. The process pid of it, if it runs, tells
// its runsc; for the rest we take what the last of those drivers had.
func (d *Driver) reconstruct(dir string, pid int) error {
	d.programsMu.Lock()
	defer d.programsMu.Unlock()
	a, err := d.lay()
	if err != nil {
		return err
	}
	to, now := filepath.Join(dir, programs), filepath.Join(d.cfg.Dir, programs)
	if err := makeFolder(to); err != nil {
		return err
	}
	a.Guessed = true
	guest := filepath.Join(d.cfg.Dir, legacyGuest)
	if _, err := os.Stat(guest); err != nil {
		guest = filepath.Join(now, guestName)
	}
	err = shareFile(guest, filepath.Join(to, guestName))
	if err == nil {
		a.Runsc, err = runscOf(pid, filepath.Join(now, runscName), filepath.Join(to, runscName), a.Runsc)
	}
	if err == nil {
		err = fs.WriteJSON(filepath.Join(to, aboutName), a, false)
	}
	if err != nil {
		os.RemoveAll(to)
	}
	return err
}

// runscOf makes to the program of the process pid, which may be that of
// now and may be gone from its place.
func runscOf(pid int, now, to string, o origin) (origin, error) {
	if pid != 0 {
		exe := fmt.Sprintf("/proc/%d/exe", pid)
		if found, err := copyProgram(exe, to); err == nil && found.Sum != o.Sum {
			return found, nil
		}
		os.Remove(to)
	}
	return o, shareFile(now, to)
}

// own sees to it that the machine has its programs.
func (m *machine) own() error {
	if _, err := os.Stat(filepath.Join(m.programs(), aboutName)); err == nil {
		return nil
	}
	os.RemoveAll(m.programs())
	return m.d.reconstruct(m.spec.Dir, m.sandbox.PID())
}

// inherit makes the folder of programs for a machine of s from what Save wrote
// into dir, and says whether it is guessed.
func (d *Driver) inherit(s vmm.Spec, dir string) (guessed bool, err error) {
	saved := filepath.Join(dir, programs)
	if _, err := os.Stat(saved); err != nil {
		return true, d.reconstruct(s.Dir, 0)
	}
	a, err := readAbout(saved)
	if err != nil {
		return false, err
	}
	return a.Guessed, share(saved, filepath.Join(s.Dir, programs))
}

// errGuessed is why what was restored with programs that are guessed ends at once.
var errGuessed = errors.New("an earlier hutchd kept no copy of the programs that it began with: see UPGRADES in hutchd(8)")

// crashed is the exit status of a sandbox whose init died of a segmentation
// fault, as one does that goes on with another program.
const crashed = 128 + int(unix.SIGSEGV)
