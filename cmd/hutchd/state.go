package main

import (
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

	"hutch/fs/node"
)

// lockState takes the state folder for this process, until the file it
// returns is closed.
func lockState(state string) (*os.File, error) {
	f, err := openLock(state)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		holder := readHolder(f)
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s is held by hutchd, process %s", node.ErrBusy, state, holder)
		}
		return nil, err
	}
	// On a full disk the next one is told less.
	f.Truncate(0)
	f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
	return f, nil
}

// orphanLimit is how long a child of a hutchd that was killed may take to
// come from fork to exec, which is when it lets go of the lock.
const orphanLimit = 10 * time.Second

// flock locks f. It fails at once where a hutchd lives that has it.
func flock(f *os.File) error {
	for end := time.Now().Add(orphanLimit); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) || lives(readHolder(f)) {
			return err
		}
	}
}

// readHolder returns what f says of the process that locked it last.
func readHolder(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	return strings.TrimSpace(string(b[:n]))
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

// logs are where hutchd says what it does: its standard error, a file in
// the state folder, and memory, from where the tree serves it.
type logs struct {
	log    *slog.Logger
	level  *slog.LevelVar
	memory *node.Log
	file   *os.File // nil if it cannot be written
	crash  string   // file that the runtime writes to when the process dies
}

// openLogs opens the logs. Without a disk to write to there is less of them.
func openLogs(o options) *logs {
	dir := filepath.Join(o.state, "log")
	l := &logs{level: new(slog.LevelVar), memory: node.NewLog(maxLog), crash: filepath.Join(dir, "panics")}
	if o.debug {
		l.level.Set(slog.LevelDebug)
	}
	out := []io.Writer{l.memory, os.Stderr} // the disk, which may be full, comes last
	file, err := appendTo(filepath.Join(dir, "service"))
	if err == nil {
		l.file = file
		out = append(out, file)
	}
	l.log = slog.New(slog.NewTextHandler(io.MultiWriter(out...), &slog.HandlerOptions{Level: l.level}))
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

func appendTo(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

func (l *logs) close() {
	if l.file != nil {
		l.file.Close()
	}
}
