//go:build linux

package main_test

import (
	"testing"

	"hutch/fs/fstest"
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
