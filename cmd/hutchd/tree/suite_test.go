package tree_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hutch/cmd/hutchd/sandbox"
	"hutch/cmd/hutchd/tree"
	"hutch/fs"
	"hutch/fs/fuse"
	"hutch/fs/need"
	"hutch/fs/ninep"
	"hutch/fs/ninep/client"
	"hutch/fs/scripttest"
	"hutch/profiles/clients/clientstest"
	"hutch/profiles/registry/registrytest"
	"hutch/relay/agent"
	"hutch/vmm"
	"hutch/vmm/image/imagetest"
	"hutch/vmm/vmmtest"
)

// guest runs the guest's agent in this process: a machine whose commands are
// processes of the host.
func guest(ctx context.Context, g vmmtest.Guest) {
	a, err := agent.New(agent.Config{Dial: func(ctx context.Context) (net.Conn, error) { return g.Dial(ctx, vmm.PortAgent) }})
	if err != nil {
		return
	}
	a.Run(ctx)
}

// settings are those of a service on a new state folder, with a log and a
// driver whose machines are goroutines that run guest.
func settings(state string, log *fs.Log, guest func(context.Context, vmmtest.Guest)) tree.Config {
	return tree.Config{
		Config: sandbox.Config{
			State: state, Drivers: []vmm.Driver{&vmmtest.Driver{Guest: guest}}, Log: slog.New(slog.NewTextHandler(log, nil)),
		},
		Level: new(slog.LevelVar), ServiceLog: log,
		CrashLog: filepath.Join(state, "panics"), Shutdown: func() {}, Mount: func() string { return "none" },
	}
}

// newServer returns the tree of such a service.
func newServer(state string) (*tree.Server, error) {
	c := settings(state, fs.NewLog(1<<20), guest)
	c.Locald = filepath.Join(state, "locald")
	c.Home, c.Hutch, c.Listen = filepath.Join(state, "home"), filepath.Join(state, "hutch"), "unix!/run/hutch/9p"
	if err := errors.Join(clientstest.Lay(c.Home), os.WriteFile(c.Hutch, nil, 0o700)); err != nil {
		return nil, err
	}
	return tree.New(c)
}

// TestMain serves a tree, over 9P and, if asked to, FUSE, when the test
// starts itself as a server; a mount is never served by who uses it.
func TestMain(m *testing.M) {
	dir := os.Getenv("HUTCH_TEST_SERVE")
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serveTree(dir, os.Getenv("HUTCH_TEST_MOUNT") != ""); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveTree serves until its standard input ends.
func serveTree(dir string, mount bool) error {
	s, err := newServer(filepath.Join(dir, "state"))
	if err != nil {
		return err
	}
	l, err := ninep.Listen("unix!" + filepath.Join(dir, "9p"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- (&ninep.Server{Root: s.Root()}).Serve(ctx, l) }()
	if mount {
		m, err := fuse.Mount(filepath.Join(dir, "mnt"), s.Root(), fuse.Options{Name: "hutch"})
		if err != nil {
			return err
		}
		defer m.Close()
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	cancel()
	<-served
	return s.Close(context.Background())
}

// startServer starts this test as a server on dir, until the test ends.
func startServer(t *testing.T, mount bool) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "hutch-fs-")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "HUTCH_TEST_SERVE="+dir)
	if mount {
		cmd.Env = append(cmd.Env, "HUTCH_TEST_MOUNT=1")
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("server: %v", err)
		}
		os.RemoveAll(dir)
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "ready" {
		t.Fatalf("server: %q, %v", line, err)
	}
	return dir
}

const scripts = "testdata/*.txt"

// variables returns what scripts have names for.
func variables(t *testing.T) []string {
	return append(imagetest.Variables(t, "fake"), registrytest.Variables(t)...)
}

func TestDirect(t *testing.T) {
	scripttest.Run(t, scripts, variables(t), func(t *testing.T) scripttest.Frontend {
		s, err := newServer(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return scripttest.Direct(s.Root())
	})
}

func TestLinux(t *testing.T) {
	need.Patience(t) // cmd/hutchd has them over 9P2000.L on real machines
	scripttest.Run(t, scripts, variables(t), func(t *testing.T) scripttest.Frontend {
		dir := startServer(t, false)
		conn, err := net.Dial("unix", filepath.Join(dir, "9p"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(t.Context(), conn, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return scripttest.Linux(c)
	})
}

func TestPlan9(t *testing.T) {
	scripttest.Run(t, scripts, variables(t), func(t *testing.T) scripttest.Frontend {
		return scripttest.Plan9("unix!" + filepath.Join(startServer(t, false), "9p"))
	})
}

func TestFUSE(t *testing.T) {
	need.FUSE(t)
	scripttest.Run(t, scripts, variables(t), func(t *testing.T) scripttest.Frontend {
		return scripttest.Mounted(filepath.Join(startServer(t, true), "mnt"))
	})
}
