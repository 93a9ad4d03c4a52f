package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"hutch/cmd/hutchd/tree"
	"hutch/fs"
)

// lockState takes the state folder for this process, until the file it
// returns is closed. It waits, until ctx is done, for a hutchd that is ending.
func lockState(ctx context.Context, state string) (*os.File, error) {
	f, err := openLock(state)
	if err != nil {
		return nil, err
	}
	if err := flock(ctx, f); err != nil {
		holder, _ := readHolder(f)
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s is held by hutchd, process %s", fs.ErrBusy, state, holder)
		}
		return nil, err
	}
	// On a full disk the next one is told less.
	f.Truncate(0)
	f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	return f, nil
}

const (
	// orphanLimit is how long a child of a hutchd that was killed may take to
	// come from fork to exec, which is when it lets go of the lock.
	orphanLimit = 10 * time.Second

	// endLimit is how long a hutchd may take to end. It is more than the tree
	// has to close in.
	endLimit = 40 * time.Second

	ending = "ending"
)

// hearLimit is how long a hutchd that was told to end may take to say so.
var hearLimit = 500 * time.Millisecond

// tellEnding says in a lock that who has it is about to let go of it.
func tellEnding(lock *os.File) { lock.WriteAt(fmt.Appendln(nil, os.Getpid(), ending), 0) }

// flock locks f. It waits for a hutchd that has it to end, if that is what it
// does, and else fails.
func flock(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	told := false
	for began := time.Now(); ; {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		pid, ends := readHolder(f)
		limit := hearLimit
		switch {
		case ends:
			limit = endLimit
		case !lives(pid):
			limit = orphanLimit
		}
		if time.Since(began) > limit {
			return err
		}
		if ends && !told {
			slog.New(slog.NewTextHandler(os.Stderr, nil)).Info("waiting for the hutchd before to end", "process", pid)
			told = true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w: wait for hutchd, process %s, to end", fs.ErrInterrupted, pid)
		}
	}
}

// readHolder returns what f says of the process that locked it last, and
// whether that is ending.
func readHolder(f *os.File) (pid string, ends bool) {
	b := make([]byte, 40)
	n, _ := f.ReadAt(b, 0)
	pid, rest, _ := strings.Cut(strings.TrimSpace(string(b[:n])), " ")
	return pid, rest == ending
}

// lives says whether there is a process pid, or may be.
func lives(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err != nil || n <= 0 || !errors.Is(syscall.Kill(n, 0), syscall.ESRCH)
}

// openLock opens the file to be locked, which on a read-only disk may have to
// be the folder.
func openLock(state string) (*os.File, error) {
	path := filepath.Join(state, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) {
		if f, err = os.Open(path); err != nil {
			f, err = os.Open(state)
		}
	}
	return f, err
}

// maxLog is how much of the log of this run is kept in memory, in bytes.
const maxLog = 4 << 20

// maxLogFile is how large the file in the state folder gets, which former runs wrote to as well.
const maxLogFile = 64 << 20

// logs are where hutchd says what it does: its standard error, a file in
// the state folder, and memory, from where the tree serves it.
type logs struct {
	log    *slog.Logger
	level  *slog.LevelVar
	memory *fs.Log
	file   *fs.LogFile // nil if it cannot be written
	crash  string      // file that the runtime writes to when the process dies
}

// openLogs opens the logs. Without a disk to write to there is less of them.
func openLogs(o options) *logs {
	dir := filepath.Join(o.state, "log")
	l := &logs{level: new(slog.LevelVar), memory: fs.NewLog(maxLog), crash: filepath.Join(dir, "panics")}
	if o.debug {
		l.level.Set(slog.LevelDebug)
	}
	out := []io.Writer{l.memory}
	if !o.quiet {
		out = append(out, os.Stderr)
	}
	file, err := fs.OpenLogFile(filepath.Join(dir, "service"), maxLogFile)
	if err == nil {
		l.file = file
		out = append(out, file) // the disk, which may be full, comes last
	}
	l.log = slog.New(slog.NewTextHandler(io.MultiWriter(out...), &slog.HandlerOptions{Level: l.level}))
	dateCrash(l.crash)
	crash, cerr := appendTo(l.crash)
	if cerr == nil {
		cerr = debug.SetCrashOutput(crash, debug.CrashOptions{})
		crash.Close()
	}
	if err := errors.Join(err, cerr); err != nil {
		l.log.Warn("no log on the disk", "err", err)
	}
	return l
}

// dateCrash has the crash log say when the last run crashed, if it did: that was
// when the Go runtime wrote to it, which says no time.
func dateCrash(path string) {
	st, err := os.Stat(path)
	if err != nil || st.Size() == 0 {
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	line := tree.Crashed + st.ModTime().UTC().Format(fs.TimeFormat) + "\n"
	end := make([]byte, min(st.Size(), int64(len(line))))
	if _, err := f.ReadAt(end, st.Size()-int64(len(end))); err == nil && !bytes.HasPrefix(end, []byte(tree.Crashed)) {
		f.WriteString(line)
	}
}

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

func (l *logs) close() {
	if l.file != nil {
		l.file.Close()
	}
}
