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
	for _, c := range []struct{ args, want string }{
		{"pull " + registry + "/lone:1", "lone-1\n"},
		{"pull " + registry + "/lone:1 lone", "lone\n"},
		{"pull " + registry + "/nosuch:1", "hutch: "},
		{"rmi lone-1", ""},
	} {
		if out, _ := s.command("hutch", strings.Fields(c.args)...).CombinedOutput(); !strings.HasPrefix(string(out), c.want) || c.want == "" && len(out) > 0 {
			t.Errorf("hutch %s: %s", c.args, out)
		}
	}
	if left := s.names("images"); left != "host lone" {
		t.Errorf("images are %s", left)
	}
	cmd := s.command("hutch", "run", "-image", "lone", "-entrypoint", "-", "-u", "0", "-w", "/", "hutch", "no-such-command")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	cmd.Run()
	if !strings.Contains(complaint.String(), "no-such-command") || ended(cmd) == "0" {
		t.Errorf("ended %s, printed %q, %q", ended(cmd), out.String(), complaint.String())
	}
	cmd = s.command("hutch", "run", "-image", "lone", "-entrypoint", "-", "-u", "0", "-w", "/", "sh", "-c", "true")
	complaint.Reset()
	cmd.Stderr = &complaint
	cmd.Run()
	if !strings.HasPrefix(complaint.String(), "hutch: file does not exist: ") {
		t.Errorf("without a shell: %q", complaint.String())
	}
}

// TestImageConfig has what an image says of its commands hold, unless the
// user says otherwise.
func TestImageConfig(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	program, err := os.ReadFile(testProgram(t, "say"))
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "say.tar")
	imagetest.Save(t, saved, imagetest.Image(t, imagetest.Tar(imagetest.Program("hello", string(program)), imagetest.Dir("srv", 0o755),
		imagetest.File("etc/passwd", "root:x:0:0::/:/\napp:x:77:78::/srv:/\n"), imagetest.File("etc/group", "app:x:78:\n"))))
	if out, err := s.command("hutch", "import", saved).CombinedOutput(); err != nil || string(out) != "say\n" {
		t.Fatalf("import: %q, %v", out, err)
	}
	for _, c := range []struct{ args, want string }{
		{"run -image say", `/srv 77:78 "of the image" ["/hello" "-v" "two words"] <nil>`},
		{"run -image say x", `/srv 77:78 "of the image" ["/hello" "x"] <nil>`},
		{"run -image say -u 0 -w / -e COLOUR=red x", `/ 0:0 "red" ["/hello" "x"] <nil>`},
		{"run -image say -entrypoint /hello", `/srv 77:78 "of the image" ["/hello"] <nil>`},
		{"run -image say -entrypoint - /hello y", `/srv 77:78 "of the image" ["/hello" "y"] <nil>`},
		{"create -image say dev", ""},
		{"start dev", ""},
		{"exec dev /hello z", `/srv 77:78 "of the image" ["/hello" "z"] <nil>`},
		{"exec -u app -w /workspace dev -- /hello -- z", `/workspace 77:78 "of the image" ["/hello" "--" "z"] <nil>`},
		{"exec -e COLOUR dev /hello", `/srv 77:78 "here" ["/hello"] <nil>`},
	} {
		cmd := s.command("hutch", strings.Fields(c.args)...)
		cmd.Env = append(cmd.Env, "COLOUR=here")
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != c.want {
			t.Errorf("hutch %s: %v, printed %s, want %s", c.args, err, out, c.want)
		}
	}
}
