//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"hutch/fs/fstest"
	"hutch/fs/node/need"
)

const scripts = "../../fs/testdata/*.txt"

// The scripts that the tests of fs run on machines made of goroutines hold on
// the real thing, over each way in.

func TestScriptsLinux(t *testing.T) {
	t.Parallel()
	fstest.Run(t, scripts, "gvisor", func(t *testing.T) fstest.Frontend {
		return fstest.Linux(serve(t, false).client())
	})
}

func TestScriptsPlan9(t *testing.T) {
	t.Parallel()
	fstest.Run(t, scripts, "gvisor", func(t *testing.T) fstest.Frontend {
		return fstest.Plan9(serve(t, false).addr)
	})
}

func TestScriptsFUSE(t *testing.T) {
	t.Parallel()
	fstest.Run(t, scripts, "gvisor", func(t *testing.T) fstest.Frontend {
		return fstest.Mounted(serve(t, true).mount)
	})
}

// TestScriptsQEMU has them hold on virtual machines, over one way in.
func TestScriptsQEMU(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	began := time.Now()
	fstest.Run(t, scripts, "qemu", func(t *testing.T) fstest.Frontend {
		return fstest.Linux(serveQEMU(t).client())
	})
	t.Logf("the scripts took %s", time.Since(began).Round(time.Second))
}

// serveQEMU starts a service whose VMs are virtual machines if they do not say.
func serveQEMU(t *testing.T) *service {
	t.Helper()
	need.QEMU(t)
	s := newService(t, false)
	profiles := filepath.Join(s.state(), "profiles")
	if err := os.MkdirAll(profiles, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(profiles, "default.toml"), []byte("driver = \"qemu\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	return s
}
