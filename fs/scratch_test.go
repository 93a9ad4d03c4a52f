package fs

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A typist is a tree of a ctl, whose messages take until they are let go, and of a
// file that takes as long as it likes.
type typist struct {
	said    chan string
	letGo   chan struct{}
	blocked chan struct{}
}

func (y *typist) root() (*Tree[*typist], Node) {
	rows := []Row[*typist]{
		{Name: "ctl", Perm: 0o600, Verbs: []Verb[*typist]{{Name: "say", Min: 1, Max: 1, Do: func(c Call[*typist], args []string) error {
			c.At.said <- args[0]
			<-c.At.letGo
			return nil
		}}}},
		{Name: "stream", Perm: 0o600, Open: func(c Call[*typist], _ int) (Handle, error) { return stuck{blocked: c.At.blocked}, nil }},
	}
	t := New(rows, y, Options[*typist]{Ident: func(*typist) uint64 { return 0 }})
	return t, t.Root()
}

type stuck struct {
	MadeUp
	blocked chan struct{}
}

func (stuck) ReadAt(context.Context, []byte, int64) (int, error) { return 0, nil }

func (s stuck) WriteAt(ctx context.Context, _ []byte, _ int64) (int, error) {
	close(s.blocked)
	<-ctx.Done()
	return 0, ctx.Err()
}

func temporaryFile(t *testing.T, dir Node, name, text string) Node {
	t.Helper()
	n, h, err := dir.Create(t.Context(), name, os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.WriteAt(t.Context(), []byte(text), 0); err != nil {
		t.Fatal(err)
	}
	h.Close()
	return n
}

// A rename that is interrupted leaves the work under way. The same rename once more
// waits for that, and does nothing twice.
func TestRenameInterrupted(t *testing.T) {
	y := &typist{said: make(chan string, 2), letGo: make(chan struct{})}
	_, dir := y.root()
	temporaryFile(t, dir, "ctl.tmp", "say a\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- dir.Rename(ctx, "ctl.tmp", dir, "ctl") }()
	<-y.said
	cancel()
	if err := <-done; !Is(err, ErrInterrupted) {
		t.Fatalf("interrupted: %v", err)
	}
	go func() { done <- dir.Rename(t.Context(), "ctl.tmp", dir, "ctl") }()
	close(y.letGo)
	if err := <-done; err != nil || len(y.said) > 0 {
		t.Errorf("once more: %v, and said %d times", err, 1+len(y.said))
	}
	if _, err := dir.Walk(t.Context(), "ctl.tmp"); !errors.Is(err, ErrNotExist) {
		t.Errorf("then it is there: %v", err)
	}
}

// Another text that gets the name of one whose rename was interrupted is written.
func TestRenameOfAnother(t *testing.T) {
	y := &typist{said: make(chan string, 2), letGo: make(chan struct{})}
	_, dir := y.root()
	temporaryFile(t, dir, "ctl.tmp", "say a\n")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- dir.Rename(ctx, "ctl.tmp", dir, "ctl") }()
	<-y.said
	cancel()
	<-done
	close(y.letGo)
	temporaryFile(t, dir, "ctl.tmp", "say b\n")
	if err := dir.Rename(t.Context(), "ctl.tmp", dir, "ctl"); err != nil {
		t.Error(err)
	}
	if got := <-y.said; got != "b" {
		t.Errorf("said %q", got)
	}
}

// Who is interrupted at a stream can go away, and the file stays.
func TestRenameToStuck(t *testing.T) {
	y := &typist{blocked: make(chan struct{})}
	_, dir := y.root()
	temporaryFile(t, dir, ".stream1", "text")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- dir.Rename(ctx, ".stream1", dir, "stream") }()
	<-y.blocked
	cancel()
	if err := <-done; !Is(err, ErrInterrupted) {
		t.Errorf("interrupted: %v", err)
	}
	if err := dir.Remove(t.Context(), ".stream1", false); err != nil {
		t.Error(err)
	}
}

// What nobody uses goes, what is open stays.
func TestScratchGoes(t *testing.T) {
	tree, dir := new(typist).root()
	temporaryFile(t, dir, ".unused", "some text")
	temporaryFile(t, dir, ".open", "")
	n, err := dir.Walk(t.Context(), ".open")
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.Open(t.Context(), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	s := &tree.scratches
	for _, files := range s.dirs {
		for _, f := range files {
			f.used = time.Now().Add(-scratchTime)
		}
	}
	s.sweep()
	if _, err := dir.Walk(t.Context(), ".unused"); !errors.Is(err, ErrNotExist) {
		t.Errorf("the unused one: %v", err)
	}
	if _, err := dir.Walk(t.Context(), ".open"); err != nil {
		t.Errorf("the open one: %v", err)
	}
	if err := dir.Remove(t.Context(), ".open", false); err != nil {
		t.Error(err)
	}
	if _, err := h.WriteAt(t.Context(), []byte("more"), 4); err != nil || s.bytes != 8 {
		t.Errorf("removed, and open: %v, %d bytes", err, s.bytes)
	}
	if h.Close(); s.bytes != 0 || s.count != 0 || len(s.dirs) != 0 {
		t.Errorf("then there are %d files of %d bytes in %d directories", s.count, s.bytes, len(s.dirs))
	}
}

func TestScratchLimits(t *testing.T) {
	tree, dir := new(typist).root()
	n := temporaryFile(t, dir, ".a", "")
	size := uint64(maxScratch + 1)
	if err := n.Set(t.Context(), Change{Size: &size}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d bytes: %v", size, err)
	}
	h, err := n.Open(t.Context(), os.O_WRONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := h.WriteAt(t.Context(), []byte("x"), 1<<60); !errors.Is(err, ErrTooLarge) {
		t.Errorf("far off: %v", err)
	}
	size--
	for i := range maxScratchBytes/maxScratch + 1 {
		n := temporaryFile(t, dir, "."+strings.Repeat("b", i+1), "")
		if err := n.Set(t.Context(), Change{Size: &size}); (err != nil) != (i == maxScratchBytes/maxScratch) {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if tree.scratches.bytes != maxScratchBytes {
		t.Errorf("%d bytes", tree.scratches.bytes)
	}
}

// Nobody finds the file of another user, who can have one of the same name.
func TestScratchIsPrivate(t *testing.T) {
	_, dir := new(typist).root()
	temporaryFile(t, dir, "ctl.tmp", "say mine\n")
	other := For(dir, Principal{UID: 4711})
	if _, err := other.Walk(t.Context(), "ctl.tmp"); !errors.Is(err, ErrNotExist) {
		t.Errorf("found: %v", err)
	}
	if err := other.Rename(t.Context(), "ctl.tmp", other, "ctl"); err == nil {
		t.Error("renamed by another")
	}
	temporaryFile(t, other, "ctl.tmp", "")
	if st, err := mustWalk(t, dir, "ctl.tmp").Stat(t.Context()); err != nil || st.Size != 9 || st.Mode != 0o600 {
		t.Errorf("mine: %+v, %v", st, err)
	}
}

func mustWalk(t *testing.T, dir Node, name string) Node {
	t.Helper()
	n, err := dir.Walk(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestMkdirOverScratch makes an object of the name that a tool's temporary file has.
func TestMkdirOverScratch(t *testing.T) {
	var made []string
	find := func(_ Call[*typist], name string) (*typist, error) {
		if slices.Contains(made, name) {
			return nil, nil
		}
		return nil, ErrNotExist
	}
	rows := []Row[*typist]{{Name: "vm", Perm: 0o755, Names: func(Call[*typist]) ([]string, error) { return made, nil }, Enter: find,
		Make: func(_ Call[*typist], name string) error { made = append(made, name); return nil },
		Each: []Row[*typist]{{Name: "NAME", Perm: 0o555}}}}
	dir, err := New(rows, nil, Options[*typist]{Ident: func(*typist) uint64 { return 0 }}).Root().Walk(t.Context(), "vm")
	if err != nil {
		t.Fatal(err)
	}
	temporaryFile(t, dir, "n1.tmp", "text")
	n, err := dir.Mkdir(t.Context(), "n1.tmp", 0o755)
	if err != nil || IsScratch(n) {
		t.Fatalf("mkdir: %v, %v", n, err)
	}
	if _, err := dir.Mkdir(t.Context(), "n1.tmp", 0o755); !Is(err, ErrExist) {
		t.Errorf("once more: %v", err)
	}
}
