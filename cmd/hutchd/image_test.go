//go:build linux

package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hutch/vmm/image/imagetest"
)

// TestRunImage pulls an image that holds one program, and runs that.
func TestRunImage(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	program, err := os.ReadFile(filepath.Join(s.bin, "hutch"))
	if err != nil {
		t.Fatal(err)
	}
	registry := imagetest.Registry(t)
	imagetest.Push(t, registry+"/lone:1", imagetest.Image(t, imagetest.Tar(imagetest.Program("tiny/bin/hutch", string(program)))))
	s.mkdir("images/lone")
	s.write("images/lone/ctl", "pull "+registry+"/lone:1\n")
	cmd := s.command("hutch", "run", "-image", "lone", "hutch", "no-such-command")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.Run()
	if !strings.Contains(complaint.String(), "no-such-command") || ended(cmd) == "0" {
		t.Errorf("ended %s, printed %q, %q", ended(cmd), out.String(), complaint.String())
	}
	cmd = s.command("hutch", "run", "-image", "lone", "sh", "-c", "true")
	complaint.Reset()
	cmd.Stderr = &complaint
	cmd.Run()
	if !strings.HasPrefix(complaint.String(), "hutch: file does not exist: ") {
		t.Errorf("without a shell: %q", complaint.String())
	}
}
