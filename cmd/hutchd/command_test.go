//go:build linux

package main_test

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"hutch/fs/need"
)

// TestCommands goes through a VM's life by the hutch command alone.
func TestCommands(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	here := t.TempDir()
	os.MkdirAll(filepath.Join(here, "f", "sub"), 0o755)
	os.WriteFile(filepath.Join(here, "f", "a"), []byte("of a\n"), 0o755)
	os.WriteFile(filepath.Join(here, "f", "sub", "b"), []byte("of b\n"), 0o600)
	os.Symlink("a", filepath.Join(here, "f", "link"))
	for _, c := range []struct{ args, want, ends string }{
		{"create -ram 256MiB dev", "^$", "0"},
		{"create dev", `^hutch: file already exists: vm "dev"; hutch exec dev runs a command in it\n$`, "1"},
		{"create -ram 512 bad", "^hutch: invalid argument: ram is too small: 512 bytes < 64MiB: say a unit", "1"},
		{"start bad", `^hutch: file does not exist: no vm "bad"`, "1"}, // nothing is left of it
		{"config dev", "^ram 256MiB\n# default: image host\n", "0"},
		{"create -profile nosuch bad", `^hutch: file does not exist: profile "nosuch": see profiles, as hutch profile ls lists them\n$`, "1"},
		{"create -v /nosuch:/x bad", "^hutch: file does not exist: mount /nosuch: no such file", "1"},
		{"create -image nosuch:1 bad", `^hutch: file does not exist: no image "nosuch:1": hutch images lists`, "1"},
		{"create -image a/host bad", `^hutch: file does not exist: no image "a/host": did you mean host\?`, "1"},
		{"create -driver nosuch bad", `^hutch: invalid argument: no driver "nosuch" here: see drivers\n$`, "1"},
		{"run -name bad -profile nosuch true", "^hutch: file does not exist", "125"},
		{"run -name bad /no/such/program", "^hutch: file does not exist", "127"},
		{"run -name bad -w /nosuch true", "^hutch: invalid argument", "126"},
		{"run -name bad", "^usage: hutch run ", "125"},
		{"run -name bad -rm -it echo hi", "^hi\r\n$", "0"},
		{"run -rm -d true", "(?s)^usage: hutch run .*exclude each other", "125"},
		{"run host true", `^hutch: file does not exist: no program "host".*; an image is said by -image host\n$`, "127"},
		{"run nosuch:1 true", `^hutch: file does not exist: no program .*; an image is said by -image nosuch:1\n$`, "127"},
		{"start bad", `^hutch: file does not exist: no vm "bad"`, "1"}, // nothing is left of any
		{"ps -q", "^dev\n$", "0"},
		{"9p ls vm -json", `^\{"name":"clone","type":"file"\}\n\{"name":"dev","type":"directory"\}\n$`, "0"},
		{"9p read status -json", "^usage: hutch 9p ", "2"},
		{"config dev cpus 1", "^$", "0"},
		{"config dev cpus", "^1\n$", "0"},
		{"config -json dev", `^\{"cpus":"1","ram":"256MiB"\}` + "\n$", "0"},
		{"config dev nosuchkey", `^hutch: invalid argument: unknown key "nosuchkey": known are image profile driver`, "1"},
		{"config dev http.allow", `^hutch: invalid argument: unknown key "http.allow": known are `, "1"},
		{"config dev disk", `^hutch: file does not exist: config of VM dev does not set disk: its profile or the default holds\n$`, "1"},
		{"start dev", "^$", "0"},
		{"start dev nosuch", `(?s)is running already.*nosuch: file does not exist`, "1"},
		{"exec -e A=b -w /tmp -u nobody dev -- sh -c echo|$A;pwd;id|-un", "^b\n/tmp\nnobody\n$", "0"},
		{"exec dev -it sh", `(?s)^usage: hutch exec .*hutch: -it: flags stand before the VM`, "125"},
		{"exec -timeout 1 dev sleep 1000", "^hutch: timed out after 1s\n$", "124"},
		{"exec -timeout xx dev true", `(?s)^usage: hutch exec .*invalid value "xx" for flag -timeout`, "125"},
		{"exec -e =x dev true", `(?s)^usage: hutch exec .*invalid value "=x" for flag -e`, "125"},
		{"exec -w /nosuch dev id", "^hutch: invalid argument: dir /nosuch: file does not exist", "126"},
		{"exec -u nosuch dev id", `^hutch: invalid argument: user "nosuch"`, "126"},
		{"exec -d -w /nosuch dev id", "^hutch: invalid argument: dir /nosuch: file does not exist", "126"},
		{"exec nosuch true", `^hutch: file does not exist: no vm "nosuch"`, "125"},
		{"exec dev sh -c kill|-40|$$", "^$", "168"}, // a real-time signal, which has no name
		{"exec -t dev tty", "^/dev/", "0"},
		{"exec -T dev tty", "not a tty", "1"},
		{"exec -d dev sh -c echo|out;echo|err|>&2;sleep|1000", "^dev d1\n$", "0"},
		{"cp " + here + "/f dev:", "^$", "0"},
		{"exec dev sh -c cat|f/a|f/link|f/sub/b;test|-x|f/a", "^of a\nof a\nof b\n$", "0"},
		{"cp dev:f " + here + "/back", "^$", "0"},
		{"cp dev:f " + here, "^$", "0"}, // over what is there
		{"cp dev:/etc/passwd " + here + "/passwd", "^$", "0"},
		{"cp " + here + "/f/a dev:/tmp/there", "^$", "0"},
		{"exec dev cat /tmp/there", "^of a\n$", "0"},
		{"cp dev:nosuch " + here, "^hutch: file does not exist: dev:nosuch\n$", "1"},
		{"cp " + here + "/nosuch dev:", "^hutch: file does not exist: " + here + "/nosuch\n$", "1"},
		{"cp a b", "(?s)^usage: hutch cp .*one of the two", "2"},
		{"cp dev:f dev:g", "(?s)^usage: hutch cp .*one of the two", "2"},
		{"snap dev one", "^$", "0"},
		{"snap dev", `(?m)^NAME .*\none +20`, "0"},
		{"snap -json dev", `"name":"one"`, "0"},
		{"snap -rm dev nog", `^hutch: file does not exist: snapshot "nog"; hutch snap dev lists them\n$`, "1"},
		{"snap -revert dev nog", `^hutch: file does not exist: snapshot "nog"; hutch snap dev lists them\n$`, "1"},
		{"undo dev", "^hutch: nothing can be undone yet; what is kept, undo in its config says: hutch config dev undo\nID +TIME +SNAPSHOT +WHAT\n$", "0"},
		{"undo dev 7", `^hutch: file does not exist: nothing to undo has the ID "7": read undo for what has\n$`, "1"},
		{"undo nog", `^hutch: file does not exist: no vm "nog"; hutch ps lists them\n$`, "1"},
		{"undo -json dev", "^hutch: nothing can be undone yet; what is kept, undo in its config says: hutch config dev undo\n$", "0"},
		{"rmi nog", `^hutch: file does not exist: no image "nog"; hutch images lists them\n$`, "1"},
		{"import /nosuch", `: /nosuch: no such file`, "1"},
		{"snap -rm dev one", "^$", "0"},
		{"snap -rm dev", "(?s)^usage: hutch snap .*hutch: say the name", "2"},
		{"snap -revert -rm dev one", "(?s)^usage: hutch snap .*exclude each other", "2"},
		{"exec -d dev echo second", "^dev d2\n$", "0"},
		{"logs -f dev", "^second\n$", "0"},
		{"9p rm vm/dev/exec/d1", "^$", "0"},
		{"exec -d dev sh -c echo|third;sleep|1000", "^dev d3\n$", "0"},
		{"exec -d dev sleep 1000 " + strings.Repeat("1", 300), "^dev d4\n$", "0"},
		{"ps", `(?m) d4 +sleep 1000 1{48}…$`, "0"},
		{"ps -json", `sleep 1000 1{300}"`, "0"},
		{"fork -live dev two", "runs on in both, dev and two", "0"},
		{"suspend two", "^$", "0"},
		{"exec two true", "^hutch: .*suspended", "125"},
		{"resume two", "^$", "0"},
		{"exec two true", "^$", "0"},
		{"rm two", "^hutch: file in use", "1"},
		{"rm -f two", "^$", "0"},
		{"stop dev", "^$", "0"},
		{"cp dev:f/a " + here + "/again", "^$", "0"},
		{"cp dev:/etc/passwd " + here, "does not run", "1"},
		{"logs dev", "^hutch: VM dev does not run: .*log serial; the output of commands goes", "0"},
		{"logs dev d2", `neither a log nor a command "d2": .*; the output of commands goes when the VM stops`, "1"},
		{"logs dev mcp", "^$", "0"},
		{"logs dev nosuch", `neither a log nor a command "nosuch": there are agg`, "1"},
		{"run -name kept echo hi", "^hi\n$", "0"},
		{"rm kept dev", "^$", "0"},
		{"run -d -name long sleep 1000", "^long d1\n$", "0"},
		{"run -d -name none /no/such/program", "^hutch: file does not exist", "127"},
		{"start none", "no vm", "1"},
		{"kill long", "^$", "0"},
		{"calls nosuch", `no vm "nosuch"`, "1"},
		{"rmi ../vm/long", `"../vm/long" is not the name of an image`, "1"},
		{"import " + here + "/f ../vm/new", `"../vm/new" is not the name of an image`, "1"},
		{"rm long ../images", `(?s)invalid argument: "../images" is not the name`, "1"},
		{"images", "(?m)^IMAGE .*\nhost +ready +host", "0"},
		{"images -json", `"image":"host"`, "0"},
		{"import " + here + "/f/a", `^hutch: `, "1"},
		{"images", "^IMAGE .*\nhost .*\n$", "0"}, // what failed is gone
		{"registry ls", "(?s)^NAME .*\neverything +[0-9.]+ +stdio +npx://@modelcontextprotocol/server-everything@.*\nsequential-thinking ", "0"},
		{"registry search READ files", "^NAME .*\nfilesystem .*\n$", "0"},
		{"registry search -json graph", `^\{"name":"memory",.*\}\n$`, "0"},
		{"registry info filesystem", `(?s)^name +filesystem\n.*argument +folder \(required\) a folder.*\nsignature +none: `, "0"},
		{"registry info io.example/x", `^hutch: file does not exist: registry entry "io.example/x"; hutch registry search finds them\n$`, "1"},
		{"registry info Memory", `did you mean memory\?; hutch registry search`, "1"},
		{"registry info memry", `did you mean memory\?; hutch registry search`, "1"},
		{"registry source file nosuch.json", `^hutch: file does not exist: .*/nosuch.json`, "1"},
		{"registry source builtin", "^$", "0"},
		{"registry refresh", "^$", "0"},
		{"registry status", "^source builtin\nstate ready\nentries 4\n", "0"},
		{"registry info", "^usage: hutch registry ", "2"},
		{"registry frob", "^usage: hutch registry ", "2"},
		{"registry list", "hutch: no verb list: did you mean ls\\?\n$", "2"},
		{"client list", "hutch: no verb list: did you mean ls\\?\n$", "2"},
		{"secret get x", "hutch: no verb get: did you mean set\\?\n$", "2"},
		{"strat dev", `^hutch: unknown command "strat": did you mean start\?`, "2"},
		{"xyzzy", `^hutch: unknown command "xyzzy"; hutch alone`, "2"},
		{"rm", "^usage: hutch rm ", "2"},
		{"rm -x", "(?s)^usage: hutch rm .*not defined: -x", "2"},
		{"version", `^hutch 0.*\nservice: hutch 0`, "0"},
		{"version -json", `"service":"hutch 0`, "0"},
		{"help", "(?m)^  completion bash", "0"},
		{"help completion", "(?s)^usage: hutch completion .*script", "0"},
		{"-s bla ps", `^hutch: invalid argument: address "bla": want unix!PATH or tcp!HOST!PORT` + "\n$", "1"},
		{"help exec", "(?s)^usage: hutch exec .*-timeout", "0"},
	} {
		args := strings.Fields(c.args)
		for i, a := range args {
			args[i] = strings.ReplaceAll(a, "|", " ")
		}
		cmd := s.command("hutch", args...)
		out, _ := cmd.CombinedOutput()
		if ended(cmd) != c.ends || !regexp.MustCompile(c.want).Match(out) {
			t.Errorf("hutch %q ended %s, printed %q, want %s, %s", args, ended(cmd), out, c.ends, c.want)
		}
	}
	for name, want := range map[string]string{"back/a": "of a\n", "back/sub/b": "of b\n", "back/link": "of a\n", "again": "of a\n"} {
		if got, err := os.ReadFile(filepath.Join(here, name)); string(got) != want || err != nil {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if st, err := os.Stat(filepath.Join(here, "back/a")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("back/a: %v, %v", st, err)
	}
}

// TestConfigMounts has several lines of config say what is mounted.
func TestConfigMounts(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.mkdir("vm/dev")
	s.write("vm/dev/config", "mount /none:/none\nmount\nmount /etc:/a\nram 1GiB\nmount /usr:/b /bin:/c:ro\n")
	for _, c := range []struct{ args, want string }{
		{"config dev mount", "/etc:/a /usr:/b /bin:/c:ro\n"},
		{"config -json dev", `{"mount":"/etc:/a /usr:/b /bin:/c:ro","ram":"1GiB"}` + "\n"},
	} {
		if out, err := s.command("hutch", strings.Fields(c.args)...).CombinedOutput(); string(out) != c.want || err != nil {
			t.Errorf("hutch %s: %q, %v", c.args, out, err)
		}
	}
}

// TestList looks at what ps tells, and at its colours.
func TestList(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	s.mkdir("vm/off")
	var l struct{ VM, State, Uptime, Memory, CPU string }
	poll(t, "measures of dev", func() bool { // they are made in the background
		out, err := s.command("hutch", "ps", "-json").Output()
		line, _, _ := strings.Cut(string(out), "\n")
		if err != nil || json.Unmarshal([]byte(line), &l) != nil || l.VM != "dev" || l.State != "running" {
			t.Fatalf("ps: %q, %v", out, err)
		}
		return strings.HasSuffix(l.Uptime, "s") && strings.HasSuffix(l.Memory, "MiB") && strings.HasSuffix(l.CPU, "%")
	})
	out, _ := s.command("hutch", "ps").Output()
	if want := regexp.MustCompile(`(?m)^VM +STATE +UPTIME +MEMORY +CPU +DRIVER +IMAGE +EXEC +COMMAND\ndev +running +\d+.*s +[\d.]+MiB +[\d.]+% +gvisor +host *\noff +created +gvisor +host *$`); !want.Match(out) {
		t.Errorf("ps:\n%s", out)
	}
	cmd := s.command("hutch", "ps")
	cmd.Env = append(cmd.Env, "TERM=xterm", "NO_COLOR=")
	master, screen := onTerminal(t, cmd)
	defer master.Close()
	screen.rest()
	cmd.Wait()
	if !strings.Contains(screen.printed, "\x1b[32mrunning\x1b[39m") {
		t.Errorf("on a terminal: %q", screen.printed)
	}
}

// TestLogsFollow follows a log that ends, and a command's output.
func TestLogsFollow(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	s.tool("dev", "local__echo")
	log := s.command("hutch", "logs", "-f", "dev", "mcp")
	printed := printing(t, log)
	for _, word := range []string{"first", "second"} {
		s.call("dev", "local__echo", `{"text":"`+word+`"}`)
		printed.until(word)
	}
	log.Process.Signal(syscall.SIGTERM)
	if printed.rest(); log.Wait() == nil || ended(log) != "143" {
		t.Errorf("logs -f ended %s", ended(log))
	}
	s.mkdir("vm/dev/exec/c")
	s.write("vm/dev/exec/c/ctl", "sh echo begun; read x; echo $x >&2\n")
	output := s.command("hutch", "logs", "-f", "dev", "c")
	output.Stderr = os.Stderr
	printed = printing(t, output)
	printed.until("begun")
	s.write("vm/dev/exec/c/stdin", "over\n")
	if printed.rest(); output.Wait() != nil {
		t.Errorf("logs -f of a command ended %s", ended(output))
	}
}

// TestCompletion has hutch complete words, as shells ask it.
func TestCompletion(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.mkdir("vm/dev")
	s.mkdir("vm/other")
	s.mkdir("vm/dev/snap/one")
	s.mkdir("vm/dev/work/sub")
	for _, name := range []string{"$(id)", "sub/f"} { // a guest names files as it likes
		if err := os.WriteFile(filepath.Join(s.state(), "vm/dev/work", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		typed []string
		want  string
	}{
		{[]string{"st"}, "stats start stop"},
		{[]string{"start", ""}, "dev other"},
		{[]string{"start", "dev", "o"}, "other"},
		{[]string{"rm", "-"}, "-f"},
		{[]string{"rm", "-f", "d"}, "dev"},
		{[]string{"exec", "-e", "A=b", "-t", "o"}, "other"},
		{[]string{"create", "-image", ""}, "host"},
		{[]string{"9p", "rd"}, "rdwr"},
		{[]string{"client", "add", "cur"}, "cursor"},
		{[]string{"client", "add", "cursor", ""}, "mcp groups/default vm/dev vm/other"},
		{[]string{"9p", "ls", ""}, ""},
		{[]string{"registry", "s"}, "search status source"},
		{[]string{"registry", "info", "m"}, "memory"},
		{[]string{"nosuch", ""}, ""},
		{[]string{"run", "-profile", ""}, "default"},
		{[]string{"profile", "show", "d"}, "default"},
		{[]string{"create", "-driver", "gv"}, "gvisor"},
		{[]string{"snap", "dev", ""}, "one"},
		{[]string{"diff", "dev", "one", ""}, "one"},
		{[]string{"config", "dev", "im"}, "image"},
		{[]string{"policy", "rules", "o"}, "other"},
		{[]string{"cp", "d"}, "dev:"},
		{[]string{"cp", "dev:"}, "dev:$(id) dev:sub/"},
		{[]string{"cp", "dev:sub/"}, "dev:sub/f"},
		{[]string{"cp", "x", "dev:/workspace/s"}, "dev:/workspace/sub/"},
		{[]string{"cp", "none:x"}, ""},
		{[]string{"call", "o"}, ""},
		{[]string{"call", "vm/d"}, "vm/dev"},
	} {
		out, err := s.command("hutch", append([]string{"completion", "words"}, c.typed...)...).Output()
		if got := strings.Join(strings.Fields(string(out)), " "); got != c.want || err != nil {
			t.Errorf("%q: %q, %v, want %q", c.typed, got, err, c.want)
		}
	}
	for line, want := range map[string]string{"hutch start o": "other", "hutch cp dev:$": `\$\(id\)`, "hutch cp x dev:sub/": "sub/f", "hutch cp d": "dev:"} {
		bash := s.user(need.Tool(t, "bash"), "-c", `eval "$("$0" completion bash)"; hutch() { command "$hutch" "$@"; }
			hutch=$0 COMP_LINE=$1 COMP_POINT=${#1}; _hutch; printf '%s\n' "${COMPREPLY[@]}"`, filepath.Join(s.bin, "hutch"), line)
		if out, err := bash.CombinedOutput(); string(out) != want+"\n" {
			t.Errorf("bash: %s: %q, %v, want %q", line, out, err, want)
		}
	}
}

// A VM that was to go with its command, and cannot, is no success.
func TestRunRemoves(t *testing.T) {
	t.Parallel()
	need.Root(t)
	s := serve(t, false)
	c := s.command("hutch", "run", "-name", "job", "-rm", "-i", "sh", "-c", "echo begun; cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	io.ReadFull(out, make([]byte, len("begun\n")))
	dir := filepath.Join(s.state(), "vm", "job")
	if text, err := exec.Command("mount", "--bind", dir, dir).CombinedOutput(); err != nil {
		need.Missing(t, string(text))
	}
	defer exec.Command("umount", "-l", dir).Run()
	in.Close()
	if err := c.Wait(); err == nil || !strings.Contains(said.String(), "file in use") {
		t.Errorf("%v: %s", err, said.String())
	}
}

// TestFullOutput has commands print to where there is no room.
func TestFullOutput(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range []string{"ps", "ps -q", "version", "exec -d dev true", "exec dev echo hi", "9p ls vm"} {
		cmd := s.command("hutch", strings.Fields(args)...)
		cmd.Stdout = full
		want := 1
		if strings.HasPrefix(args, "exec") {
			want = 125
		}
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != want {
			t.Errorf("%s: %v", args, err)
		}
	}
}
