package tree_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hutch/fs/need"
)

// put writes a file with flags, and does what comes before the close.
func put(name string, flags int, text string, then ...func(fd int) error) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return err
	}
	for rest := text; rest != "" && err == nil; {
		var n int
		n, err = unix.Write(fd, []byte(rest))
		rest = rest[max(n, 0):]
	}
	for _, do := range then {
		if err == nil {
			err = do(fd)
		}
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	return err
}

// over puts text into a temporary file and renames that over name.
func over(name, temporary string, flags int, text string, then ...func(fd int) error) error {
	err := put(temporary, flags, text, then...)
	if err == nil {
		err = unix.Rename(temporary, name)
	}
	if err != nil {
		unix.Unlink(temporary)
	}
	return err
}

func beside(name, temporary string) string { return filepath.Join(filepath.Dir(name), temporary) }

const (
	anew      = unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC
	exclusive = unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
)

// fileTools write whole files, by the system calls of programs that do.
var fileTools = map[string]func(name, text string) error{
	"Codex, Gemini CLI, Qwen Code, Continue": func(name, text string) error { return put(name, anew, text) },
	"server-filesystem": func(name, text string) error {
		err := put(name, unix.O_WRONLY|exclusive, text)
		if err != unix.EEXIST {
			return err
		}
		return over(name, name+".0123456789abcdef0123456789abcdef.tmp", anew, text)
	},
	"Claude Code": func(name, text string) error {
		var st unix.Stat_t
		mode := uint32(0o644)
		if unix.Stat(name, &st) == nil {
			mode = st.Mode
		}
		temporary := fmt.Sprintf("%s.tmp.%d.%d", name, os.Getpid(), time.Now().UnixMilli())
		return over(name, temporary, anew, text, unix.Fsync, func(int) error { return unix.Chmod(temporary, mode&0o7777) })
	},
	"Python": func(name, text string) error {
		return over(name, beside(name, "tmpk3_9zq0a"), unix.O_RDWR|exclusive, text, unix.Fsync)
	},
	"Rust": func(name, text string) error {
		return over(name, beside(name, ".tmpAb3dE9"), unix.O_RDWR|exclusive, text)
	},
	"Go": func(name, text string) error { return over(name, name+"2893471098", unix.O_RDWR|exclusive, text) },
	"write-file-atomic": func(name, text string) error {
		temporary := name + ".3871059182"
		return over(name, temporary, anew, text, unix.Fsync, func(int) error {
			return errors.Join(unix.Chown(temporary, os.Getuid(), os.Getgid()), unix.Chmod(temporary, 0o644),
				unix.Utimes(temporary, make([]unix.Timeval, 2)))
		})
	},
	"sed": func(name, text string) error {
		return over(name, beside(name, "sedAb12Cd"), unix.O_RDWR|exclusive, text, func(fd int) error {
			return errors.Join(unix.Fchmod(fd, 0o600), unix.Fchown(fd, os.Getuid(), os.Getgid()))
		})
	},
	"vim": func(name, text string) error {
		if err := errors.Join(put(beside(name, "4913"), unix.O_WRONLY|exclusive, ""), unix.Unlink(beside(name, "4913"))); err != nil {
			return err
		}
		kept := unix.Rename(name, name+"~") == nil
		err := put(name, anew, text, unix.Fsync)
		if kept {
			err = errors.Join(err, unix.Unlink(name+"~"))
		}
		return err
	},
}

// readsFirst has the tools that edit what they could read, and that make files whose
// names may be those of secrets.
var readsFirst = map[string]bool{"sed": true, "vim": true, "Go": true}

func errno(err error) (n unix.Errno) {
	errors.As(err, &n)
	return n
}

func content(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// mountedVM returns a mount with the VM dev, which runs, and what has files there.
func mountedVM(t *testing.T) (dir string) {
	need.FUSE(t)
	dir = filepath.Join(startServer(t, true), "mnt")
	for _, name := range []string{"vm/dev", "servers/a", "groups/g", "images/i", "vm/stopped"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(dir+"/vm/dev/ctl", unix.O_WRONLY, "start\n"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exec/t", "net/tcp/t", "mcp/sessions/s", "snap/s"} {
		if err := os.Mkdir(filepath.Join(dir, "vm/dev", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(dir+"/secrets/token", anew, "x"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFileTools has every tool write what is no message to every file that can be
// written: it gets the error of a plain write.
func TestFileTools(t *testing.T) {
	dir := mountedVM(t)
	files := 0
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		of := strings.TrimPrefix(name, dir)
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "root" || e.Name() == "tools"):
			return fs.SkipDir
		case e.IsDir(), e.Name() == "cons", e.Name() == "unpack", e.Name() == "stdin":
			return nil
		}
		fi, err := e.Info()
		if err != nil || fi.Mode()&0o200 == 0 {
			return err
		}
		files++
		want := errno(put(name, anew, "frob\n"))
		for tool, write := range fileTools {
			switch {
			case tool == "vim" && e.Name() == "config" && want == 0: // whose fsync is told what is wrong
				continue
			case strings.HasPrefix(of, "/secrets/") && readsFirst[tool]:
				continue
			}
			if got := write(name, "frob\n"); errno(got) != want {
				t.Errorf("%s: %s: %v, want %v", of, tool, got, want)
			}
		}
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
			t.Errorf("%s: then %v, mode %o", of, err, st.Mode)
		}
		return nil
	})
	if err != nil || files < 30 {
		t.Errorf("%d files, %v", files, err)
	}
}

// TestFileToolsWrite has every tool write a message to files of each kind.
func TestFileToolsWrite(t *testing.T) {
	dir := mountedVM(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	n, secrets := 0, 1
	for tool, write := range fileTools {
		n++
		server, exec, key := fmt.Sprintf("server%d", n), fmt.Sprintf("vm/dev/exec/e%d", n), fmt.Sprintf("key%d", n)
		for _, name := range []string{"servers/" + server, exec} {
			if err := os.Mkdir(in(name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ file, text, shows, what string }{
			{"ctl", []string{"debug on\n", "debug off"}[n%2], "ctl", []string{"debug on\n", "debug off\n"}[n%2]},
			{"vm/stopped/ctl", fmt.Sprintf("stopped\nset ram %dGiB\n", n), "vm/stopped/config", fmt.Sprintf("ram %dGiB\n", n)},
			{"vm/stopped/config", fmt.Sprintf("cpus %d\n", n), "vm/stopped/config", fmt.Sprintf("cpus %d\n", n)},
			{"vm/stopped/env/" + key, "value", "vm/stopped/env/" + key, "value"},
			{"vm/dev/work/f", tool, "vm/dev/work/f", tool},
			{exec + "/ctl", "hold\nsh cat", exec + "/status", "running\n"},
			{exec + "/stdin", tool, "", ""},
			{exec + "/ctl", "eof\n", exec + "/stdout", tool},
			{"vm/dev/mcp/sessions/s/in", fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"ping"}`, n), "vm/dev/mcp/sessions/s/status", fmt.Sprintf("in %d\n", n)},
			{"secrets/" + key, tool, "", ""},
			{"groups/g/members", server + "\n", "groups/g/members", server + "\n"},
			{"groups/g/config", "# " + tool + "\nname: g\n", "groups/g/config", "# " + tool},
			{"profiles/p.toml", "# " + tool, "profiles/p.toml", "# " + tool},
		} {
			if strings.HasPrefix(c.file, "secrets/") {
				if readsFirst[tool] {
					continue
				}
				secrets++
			}
			if err := write(in(c.file), c.text); err != nil {
				t.Errorf("%s: %s: %v", c.file, tool, err)
			}
			if c.shows != "" && !strings.Contains(content(t, in(c.shows)), c.what) {
				t.Errorf("%s: %s: %s is %q", c.file, tool, c.shows, content(t, in(c.shows)))
			}
		}
	}
	if list, err := os.ReadDir(in("secrets")); err != nil || len(list) != secrets {
		t.Errorf("secrets: %v, %v", list, err)
	}
}

// TestFileToolsAlone uses a VM by nothing but mkdir and tools for whole files.
func TestFileToolsAlone(t *testing.T) {
	need.FUSE(t)
	dir := filepath.Join(startServer(t, true), "mnt")
	write := fileTools["Claude Code"]
	vm := dir + "/vm/dev"
	for _, step := range []struct{ name, text string }{
		{vm, ""},
		{vm + "/ctl", "start"},
		{vm + "/work/f", "hello\n"},
		{vm + "/exec/t", ""},
		{vm + "/exec/t/ctl", "t\ndir " + vm + "\nsh cat work/f; exit 3\n"},
		{vm + "/mcp/sessions/s", ""},
		{vm + "/mcp/sessions/s/ctl", `call file_list {"path":"."}`},
		{vm + "/mcp/sessions/s/ctl", "s\neof\n"},
	} {
		do := func() error { return write(step.name, step.text) }
		if step.text == "" {
			do = func() error { return os.Mkdir(step.name, 0o755) }
		}
		if err := do(); err != nil {
			t.Fatalf("%s %q: %v: %s", step.name, step.text, err, content(t, vm+"/err"))
		}
	}
	for _, c := range []struct{ name, want string }{
		{"exec/t/stdout", "hello\n"}, {"exec/t/wait", "3 "}, {"exec/t/status", "\nresult 3 "}, {"exec/t/log/stdout", "hello\n"},
		{"mcp/sessions/s/out", `"id":"ctl-1"`}, {"mcp/sessions/s/log/out", `"id":"ctl-1"`},
		{"log/events", `"running"`}, {"log/mcp", "file_list"},
	} {
		if got := content(t, filepath.Join(vm, c.name)); !strings.Contains(got, c.want) {
			t.Errorf("%s is %q", c.name, got)
		}
	}
	if err := write(vm+"/ctl", "dev\nstop\n"); err != nil || !strings.HasPrefix(content(t, vm+"/status"), "stopped\n") {
		t.Errorf("stop: %v, %s", err, content(t, vm+"/status"))
	}
	if err := os.Remove(vm); err != nil {
		t.Error(err)
	}
}

// TestFileToolsRefused is of renames that no file system of made-up files can do.
func TestFileToolsRefused(t *testing.T) {
	dir := mountedVM(t)
	temporary, ctl := dir+"/vm/dev/ctl.tmp", dir+"/vm/dev/ctl"
	err := put(temporary, anew, "stop\n", func(fd int) error {
		return errors.Join(unix.Fsetxattr(fd, "user.a", nil, 0), unix.Fchmod(fd, 0o755))
	})
	if err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[uint]error{unix.RENAME_NOREPLACE: unix.EEXIST, unix.RENAME_EXCHANGE: unix.EINVAL, unix.RENAME_WHITEOUT: unix.EINVAL} {
		if err := unix.Renameat2(unix.AT_FDCWD, temporary, unix.AT_FDCWD, ctl, flags); err != want {
			t.Errorf("renameat2 with %d: %v", flags, err)
		}
	}
	for name, want := range map[string]error{
		ctl: unix.EEXIST, dir + "/vm/dev/start": unix.EPERM, dir + "/vm/dev/ctl.bak": nil, dir + "/secrets/linked": nil,
	} {
		if err := unix.Link(temporary, name); err != want {
			t.Errorf("link to %s: %v", name, err)
		}
	}
	if err := unix.Unlink(temporary); err != nil || content(t, dir+"/vm/dev/ctl.bak") != "stop\n" {
		t.Error("the linked file:", err)
	}
	for _, name := range []string{"vm", "vm/dev/exec", "status", "vm/dev/work/f"} {
		if err := os.Rename(dir+"/vm/dev/ctl.bak", filepath.Join(dir, name)); err == nil {
			t.Errorf("renamed to %s", name)
		}
	}
	if !strings.HasPrefix(content(t, dir+"/vm/dev/status"), "running\n") {
		t.Error("one of these was done")
	}
	for i := range 40 {
		err := put(fmt.Sprintf("%s/vm/dev/ctl.tmp.%d", dir, i), anew, "x")
		if want := i >= 31; (err == unix.ENOSPC) != want {
			t.Errorf("temporary file %d: %v", i, err)
		}
	}
	if err := put(dir+"/vm/.big", anew, strings.Repeat("x", 9<<20)); err != unix.EFBIG {
		t.Errorf("a large one: %v", err)
	}
}

// TestEditorsOfMessages edits a ctl, which reads the VM's name, with programs that
// there are.
func TestEditorsOfMessages(t *testing.T) {
	dir := mountedVM(t)
	vm := filepath.Join(dir, "vm/stopped")
	for i, c := range []struct{ tool, script string }{
		{"sed", "sed -i 's/stopped/set ram %dGiB/' ctl"},
		{"sed", "sed -i.bak 's/$/\\nset ram %dGiB/' ctl && grep -q stopped ctl.bak"},
		{"vim", "vim -Nu NONE -es -c 's/stopped/set ram %dGiB/' -c wq ctl </dev/null"},
		{"vim", "vim -Nu NONE -es -c 'set backupcopy=no backup' -c '%%s/ram .*GiB/ram %dGiB/' -c wq config </dev/null"},
		{"sed", "sed -i 's/ram .*GiB/ram %dGiB/' config"},
		{"python3", "python3 -c \"import os,tempfile;f=tempfile.NamedTemporaryFile('w',dir='.',delete=False);f.write('set ram %dGiB');f.close();os.replace(f.name,'ctl')\""},
		{"rsync", "echo set ram %dGiB >../dev/work/x && rsync ../dev/work/x ctl"},
		{"cp", "echo set ram %dGiB >../dev/work/x && cp -p ../dev/work/x ctl"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			need.Tool(t, c.tool)
			cmd := exec.Command("dash", "-c", fmt.Sprintf(c.script, i+1))
			cmd.Dir = vm
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(content(t, vm+"/config"), fmt.Sprintf("ram %dGiB\n", i+1)) {
				t.Errorf("%s: %v %s: %s: %s", c.script, err, out, content(t, vm+"/err"), content(t, vm+"/config"))
			}
		})
	}
}

// TestServerFilesystem uses a VM through the MCP server that many agents have for files.
func TestServerFilesystem(t *testing.T) {
	node, program := need.NPM(t, "@modelcontextprotocol/server-filesystem")
	need.FUSE(t)
	dir := filepath.Join(startServer(t, true), "mnt")
	vm := dir + "/vm/dev"
	cmd := exec.CommandContext(t.Context(), node, program, dir)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	answers := bufio.NewScanner(out)
	id := 0
	ask := func(method string, params any) (answer struct {
		ID     int
		Result struct {
			IsError bool
			Content []struct{ Text string }
		}
	}) {
		t.Helper()
		id++
		line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		in.Write(append(line, '\n'))
		for answers.Scan() {
			if json.Unmarshal(answers.Bytes(), &answer) == nil && answer.ID == id {
				return answer
			}
		}
		t.Fatalf("%s: no answer: %v", method, answers.Err())
		return answer
	}
	ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"}})
	io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	edit := func(old, new string) any { return []map[string]string{{"oldText": old, "newText": new}} }
	for _, c := range []struct {
		tool, path string
		more       string
		value      any
		want       string
	}{
		{"read_text_file", dir + "/README", "", nil, "renamed over"},
		{"create_directory", vm, "", nil, ""},
		{"edit_file", vm + "/ctl", "edits", edit("dev", "start"), ""},
		{"read_text_file", vm + "/status", "", nil, "running"},
		{"create_directory", vm + "/exec/t", "", nil, ""},
		{"write_file", vm + "/work/a.sh", "content", "echo $((6*7))\n", ""},
		{"edit_file", vm + "/work/a.sh", "edits", edit("6*7", "7*7"), ""},
		{"write_file", vm + "/exec/t/ctl", "content", "dir " + vm + "/work", ""},
		{"edit_file", vm + "/exec/t/ctl", "edits", edit("t\n", "t\nsh sh a.sh; exit 3\n"), ""},
		{"read_text_file", vm + "/exec/t/stdout", "", nil, "49"},
		{"read_text_file", vm + "/exec/t/wait", "", nil, "3 "},
		{"write_file", vm + "/env/FOO", "content", "bar", ""},
		{"edit_file", vm + "/env/FOO", "edits", edit("bar", "baz"), ""},
		{"read_text_file", vm + "/log/events", "", nil, "running"},
		{"write_file", dir + "/secrets/token", "content", "geheim", ""},
		{"write_file", dir + "/secrets/token", "content", "geheimer", ""},
		{"write_file", vm + "/ctl", "content", "stop\n", ""},
		{"edit_file", vm + "/config", "edits", edit("# default: image host", "ram 3GiB"), ""},
		{"read_text_file", vm + "/config", "", nil, "ram 3GiB"},
	} {
		arguments := map[string]any{"path": c.path}
		if c.more != "" {
			arguments[c.more] = c.value
		}
		a := ask("tools/call", map[string]any{"name": c.tool, "arguments": arguments})
		if a.Result.IsError || len(a.Result.Content) == 0 || !strings.Contains(a.Result.Content[0].Text, c.want) {
			t.Errorf("%s %v: %+v: %s", c.tool, arguments, a.Result, content(t, dir+"/err"))
		}
	}
	a := ask("tools/call", map[string]any{"name": "write_file", "arguments": map[string]any{"path": vm + "/ctl", "content": "strat\n"}})
	if !a.Result.IsError || !strings.Contains(a.Result.Content[0].Text, "EINVAL") {
		t.Errorf("a message that is none: %+v", a.Result)
	}
}
