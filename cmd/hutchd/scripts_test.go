//go:build linux

package main_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"hutch/fs/need"
	"hutch/fs/scripttest"
	"hutch/profiles/registry/registrytest"
	"hutch/vmm/image/imagetest"
)

const scripts = "tree/testdata/*.txt"

// The scripts that the tests of cmd/hutchd/tree run with vmmtest, whose machines
// are goroutines, hold on real machines, over each way in.

// serveHome starts a service with a home of its own.
func serveHome(t *testing.T, mounted bool) *service {
	s := newService(t, mounted)
	s.atHome()
	s.start()
	return s
}

func TestScriptsLinux(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	scripttest.Run(t, scripts, append(imagetest.Variables(t, "gvisor"), registrytest.Variables(t)...), func(t *testing.T) scripttest.Frontend {
		return scripttest.Linux(serveHome(t, false).client().Conn)
	})
}

func TestScriptsPlan9(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	scripttest.Run(t, scripts, append(imagetest.Variables(t, "gvisor"), registrytest.Variables(t)...), func(t *testing.T) scripttest.Frontend {
		return scripttest.Plan9(serveHome(t, false).addr)
	})
}

func TestScriptsFUSE(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	scripttest.Run(t, scripts, append(imagetest.Variables(t, "gvisor"), registrytest.Variables(t)...), func(t *testing.T) scripttest.Frontend {
		return scripttest.Mounted(serveHome(t, true).mount)
	})
}

// TestScriptsQEMU has them hold on virtual machines, over one way in.
func TestScriptsQEMU(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	began := time.Now()
	scripttest.Run(t, scripts, append(imagetest.Variables(t, "qemu"), registrytest.Variables(t)...), func(t *testing.T) scripttest.Frontend {
		return scripttest.Linux(serveQEMU(t).client().Conn)
	})
	t.Logf("the scripts took %s", time.Since(began).Round(time.Second))
}

// serveQEMU starts a service whose VMs are virtual machines if they do not say.
func serveQEMU(t *testing.T) *service {
	t.Helper()
	need.QEMU(t)
	s := newService(t, false)
	s.atHome()
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
