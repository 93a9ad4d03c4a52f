package ninep

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"hutch/fs"
)

// A maze is a directory that has itself by every name, and lists many names.
type maze struct {
	fs.Refuse
	way  string
	list []fs.Entry
}

func (m maze) Stat(context.Context) (fs.Stat, error) {
	return fs.Stat{Mode: os.ModeDir | 0o755, Qid: 9}, nil
}
func (m maze) Walk(_ context.Context, name string) (fs.Node, error) {
	return maze{way: m.way + "/" + name, list: m.list}, nil
}
func (m maze) List(context.Context) ([]fs.Entry, error) { return append([]fs.Entry{}, m.list...), nil }

// A keeper is a client that has as much kept as it can.
type keeper struct {
	*tracer
	fid int
}

// ask makes a request, and says whether it is answered by its answer; else by
// the error of what has too much.
func (k *keeper) ask(typ string, fields map[string]string) bool {
	k.t.Helper()
	b, err := note{name: "T" + typ, fields: fields}.encode(1)
	if err != nil {
		k.t.Fatal(err)
	}
	k.at.c.Write(b)
	got, err := k.at.next("", false)
	if err != nil {
		k.t.Fatal(err)
	}
	if got.name != "R"+typ && got.fields["ecode"] != strconv.Itoa(int(syscall.ENFILE)) {
		k.t.Fatalf("got %+v", got)
	}
	return got.name == "R"+typ
}

func (k *keeper) walk(from int, names ...string) bool {
	k.t.Helper()
	k.fid++
	return k.ask("walk", map[string]string{"fid": strconv.Itoa(from), "newfid": strconv.Itoa(k.fid), "wname": "[" + strings.Join(names, " ") + "]"})
}

func (k *keeper) clunk(fid int) bool {
	k.t.Helper()
	return k.ask("clunk", map[string]string{"fid": strconv.Itoa(fid)})
}

func newKeeper(t *testing.T, list []fs.Entry) *keeper {
	k := &keeper{tracer: newTracer(t)}
	k.srv.Root = maze{list: list}
	k.lines(attachLinux)
	return k
}

// TestManyListings opens a directory of many names again and again, and reads
// the begin of each.
func TestManyListings(t *testing.T) {
	list := make([]fs.Entry, 50_000)
	for i := range list {
		list[i].Name = strconv.Itoa(i) + strings.Repeat("n", 200)
	}
	k := newKeeper(t, list)
	read := func() bool {
		return k.walk(0) && k.ask("lopen", map[string]string{"fid": strconv.Itoa(k.fid), "flags": "0"}) &&
			k.ask("readdir", map[string]string{"fid": strconv.Itoa(k.fid), "count": "1000"})
	}
	n := 0
	for ; read(); n++ {
		if n > 1000 {
			t.Fatal("no end of them")
		}
	}
	if n < 4 {
		t.Errorf("%d at once", n)
	}
	for fid := 1; fid <= n; fid++ {
		k.clunk(fid)
	}
	if !read() {
		t.Error("given back, and there is no room")
	}
	k.end()
}

// TestLists reads a directory while another one is read, and only one may be.
func TestLists(t *testing.T) {
	k := newKeeper(t, []fs.Entry{{Name: "a"}})
	k.srv.Lists = make(chan struct{}, 1)
	k.srv.Lists <- struct{}{}
	k.lines(`
		Twalk fid 0 newfid 1
		Rwalk
		Tlopen fid 1 flags 0
		Rlopen
		Treaddir tag 1 fid 1 count 1000
		Tgetattr tag 2 fid 1
		Rgetattr tag 2
		Tflush tag 3 oldtag 1
		Rlerror tag 1
		Rflush tag 3`)
	<-k.srv.Lists
	k.lines(`
		Treaddir fid 1 count 1000
		Rreaddir`)
	k.end() // an answer may be sent before its place is free
	if n := len(k.srv.Lists); n != 0 {
		t.Errorf("%d are read at the end", n)
	}
}

// TestLongWays has fids of files that lie deep.
func TestLongWays(t *testing.T) {
	k := newKeeper(t, nil)
	name := strings.Repeat("d", 250)
	names := make([]string, 16)
	for i := range names {
		names[i] = name
	}
	before := heap()
	for k.walk(k.fid, names...) {
		if k.fid > 1000 {
			t.Fatal("no end of them")
		}
	}
	if n := heap() - before; n > maxKept {
		t.Errorf("%d MiB held", n>>20)
	}
	last := k.fid - 1
	if k.ask("walk", map[string]string{"fid": strconv.Itoa(last), "newfid": strconv.Itoa(last), "wname": "[" + name + "]"}) {
		t.Error("a fid goes further without room")
	}
	for fid := 1; fid <= last; fid++ {
		k.clunk(fid)
	}
	if !k.walk(0, name) {
		t.Error("given back, and there is no room")
	}
	k.end()
}
