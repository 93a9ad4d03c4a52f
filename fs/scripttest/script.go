// Package scripttest runs scripts on the tree as its clients have it: directly,
// over 9P2000.L, over 9P2000 and on a mount. Only tests import it.
package scripttest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/fs"
)

// A script in testdata is a list of commands, one a line:
//
//	mkdir P, rmdir P, rm P, mv P Q      change the tree
//	write P TEXT                        open for writing with truncation, write once, close
//	append P TEXT                       open with O_APPEND, write once, close
//	create P TEXT                       the same with creation
//	pieces P TEXT                       write TEXT a byte at a time through one open file
//	read P, ls P, stat P                get a file's text, a directory's names, type and size
//	open H P MODE, fread H, fwrite H T, fclose H    keep a file open as H; MODE r w rw, n for nonblocking
//	pour H P, cut H P N                 write what H has to its end, or N bytes of it, to P
//	bg H P                              read P to its end in the background
//	head P N                            read N lines of a file that may block
//	join H                              get what bg read
//	cancel H                            interrupt what bg reads, and get what it read so far
//	want TEXT, match RE, nomatch RE     what was got is TEXT, or has RE in it
//	! COMMAND                           the command fails
//	[CAN] COMMAND                       only where clients can: replace (a rename over a file), nonblock, cancel
//	err TEXT                            the error's kind is that of TEXT, and err files tell TEXT
//
// Words are quoted as in ctl messages; \n stands for a newline, $DRIVER for
// the driver of VMs, $REGISTRY for a registry with the images tiny and other,
// $IMAGES for a folder of images to import, $SERVERS for a registry of MCP servers, and
// $H for what was read first through the file kept open as H.

// A Frontend is the tree as one kind of client has it.
type Frontend interface {
	open(name string, flags int) (file, error) // with os.O_CREATE it makes the file
	mkdir(name string) error
	remove(name string, dir bool) error
	rename(from, to string) error
	list(name string) ([]string, error)
	stat(name string) (dir bool, size uint64, err error)
	can(what string) bool // CAN of a script, or "text": errors carry it
}

type file interface {
	ReadAt(ctx context.Context, p []byte, off int64) (int, error)
	WriteAt(ctx context.Context, p []byte, off int64) (int, error)
	Sync(ctx context.Context) error
	Close() error
}

// A script is one under way.
type script struct {
	t    *testing.T
	f    Frontend
	at   string // file:line
	vars *strings.Replacer
	got  string
	err  error
	open map[string]*openFile
	jobs map[string]*job
	said map[string]string // what was read first through each open file
}

type openFile struct {
	file
	off int64
}

type job struct {
	cancel context.CancelFunc
	done   chan struct{}
	text   string
	err    error
}

// Run runs each script of pattern as a test, on the frontend that start makes
// for it, of a service on a new state folder. vars are the scripts' variables,
// each followed by what it stands for.
func Run(t *testing.T, pattern string, vars []string, start func(t *testing.T) Frontend) {
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no scripts in %s: %v", pattern, err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			s := &script{t: t, f: start(t), vars: strings.NewReplacer(vars...), open: map[string]*openFile{}, jobs: map[string]*job{}, said: map[string]string{}}
			s.run(name)
		})
	}
}

func (s *script) run(name string) {
	f, err := os.Open(name)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	defer s.end()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		s.at = fmt.Sprintf("%s:%d: %s", filepath.Base(name), n, line)
		s.line(line)
	}
}

// end closes what the script left open.
func (s *script) end() {
	for _, j := range s.jobs {
		j.cancel()
		<-j.done
	}
	for _, f := range s.open {
		f.Close()
	}
}

func (s *script) line(line string) {
	if can, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "] "); ok && line[0] == '[' {
		if !s.f.can(can) {
			return
		}
		line = rest
	}
	words, err := fs.Words(line)
	if err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
	for i, w := range words {
		w = strings.ReplaceAll(w, `\n`, "\n")
		w = strings.ReplaceAll(w, `\0`, "\x00")
		w = s.vars.Replace(w)
		for h, first := range s.said {
			w = strings.ReplaceAll(w, "$"+h, first)
		}
		words[i] = w
	}
	if words[0] == "!" {
		s.err = s.do(words[1:])
		if s.err == nil {
			s.t.Fatalf("%s: succeeded; got %q", s.at, s.got)
		}
		return
	}
	if err := s.do(words); err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
}
