package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"hutch/fs/node"
)

// lockState takes the state folder for this process, until the file it
// returns is closed.
func lockState(state string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(state, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(f)
		f.Close()
		return nil, fmt.Errorf("%w: %s is held by hutchd, process %s", node.ErrBusy, state, strings.TrimSpace(string(holder)))
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// maxLog is how much of the log of this run is kept in memory, in bytes.
const maxLog = 4 << 20

// logs are where hutchd says what it does: its standard error, a file in
// the state folder, and memory, from where the tree serves it.
type logs struct {
	log    *slog.Logger
	level  *slog.LevelVar
	memory *node.Log
	file   *os.File
	crash  string // file that the runtime writes to when the process dies
}

func openLogs(o options) (*logs, error) {
	dir := filepath.Join(o.state, "log")
	l := &logs{level: new(slog.LevelVar), memory: node.NewLog(maxLog), crash: filepath.Join(dir, "panics")}
	if o.debug {
		l.level.Set(slog.LevelDebug)
	}
	var err error
	if l.file, err = os.OpenFile(filepath.Join(dir, "service"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
		return nil, err
	}
	crash, err := os.OpenFile(l.crash, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		l.file.Close()
		return nil, err
	}
	err = debug.SetCrashOutput(crash, debug.CrashOptions{})
	crash.Close()
	if err != nil {
		l.file.Close()
		return nil, err
	}
	out := io.MultiWriter(l.memory, l.file, os.Stderr)
	l.log = slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: l.level}))
	return l, nil
}

func (l *logs) close() { l.file.Close() }
