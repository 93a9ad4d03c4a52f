//go:build linux

package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hutch/fs/need"
)

// everything returns what a profile says of the reference's test server, which its
// sandbox is shown.
func everything(t testing.TB) string {
	nodejs, program := need.Everything(t)
	folders := []string{rootOf(program)}
	if !strings.HasPrefix(nodejs, "/usr/") {
		folders = append(folders, filepath.Dir(nodejs))
	}
	return fmt.Sprintf("command = %q\nargs = [%q, \"stdio\"]\nread = [%s]\n", nodejs, program, quoted(folders))
}

// everythingOnHost is everything, but the server is a process of the host.
func everythingOnHost(t testing.TB) string {
	nodejs, program := need.Everything(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("command = %q\nargs = [%q, \"stdio\"]\nsandbox = false\nrun_as = %q\n", nodejs, program, me.Username)
}

// rootOf returns the folder of a program's node_modules.
func rootOf(program string) string {
	root, _, _ := strings.Cut(program, "/node_modules/")
	return root
}

func quoted(list []string) string {
	var words []string
	for _, s := range list {
		words = append(words, strconv.Quote(s))
	}
	return strings.Join(words, ", ")
}

// sum has the sandboxed server work.
func (s *service) sum(vm string) {
	s.t.Helper()
	s.tool(vm, "all__get-sum")
	if text := s.call(vm, "all__get-sum", `{"a":2,"b":3}`); !strings.Contains(text, "5") {
		s.t.Errorf("the sum is %s", text)
	}
}

// TestSandboxed has a VM use a server that runs in a sandbox, which ends when
// hutchd does, however that is, and goes with the VM.
func TestSandboxed(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", "[mcpServers.all]\n"+everything(t)+"env.MARK = \"told\"\n")
	s.vm("dev")
	s.sum("dev")
	if text := s.call("dev", "all__get-env", `{}`); !strings.Contains(text, "MARK") || !strings.Contains(text, "/workspace") {
		t.Errorf("its environment is %s", text)
	}
	if text := s.read("vm/server-dev-all/status"); !strings.HasPrefix(text, "running\n") || !strings.Contains(text, "net host-proxy\n") {
		t.Errorf("the sandbox is %s", text)
	}
	s.signal(syscall.SIGKILL)
	s.start()
	s.sum("dev")
	s.signal(syscall.SIGTERM)
	s.start()
	s.sum("dev")
	s.write("vm/dev/ctl", "stop\n")
	s.write("vm/dev/ctl", "start\n")
	s.sum("dev")
	s.write("vm/server-dev-all/ctl", "kill\n") // which the server's next call mends
	s.sum("dev")
	s.write("vm/dev/ctl", "stop\n")
	if err := s.client().Remove("vm/dev"); err != nil {
		t.Fatal(err)
	}
	poll(t, "the sandbox to be gone", func() bool { return s.read("status") == "" })
}

// ownShell makes a folder with an executable copy of a shell that no sandbox shows.
func ownShell(t *testing.T) (folder, program string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, "own-sh")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// TestSandboxedElsewhere has a server whose program is where its sandbox does not see
// it, and does what the error says.
func TestSandboxedElsewhere(t *testing.T) {
	t.Parallel()
	folder, program := ownShell(t)
	s := serve(t, false)
	profile := fmt.Sprintf("[mcpServers.s]\ncommand = %q\nargs = [\"-c\", '''%s''']\n", program, teller)
	s.write("profiles/default.toml", profile)
	s.vm("dev")
	line := fmt.Sprintf("read = [%q]", folder)
	why := func() string { return s.read("vm/dev/mcp/servers") }
	poll(t, "the error", func() bool { return strings.Contains(why(), "add "+line+" to [mcpServers.s] of profile default") })
	s.write("profiles/default.toml", profile+line+"\n")
	s.write("vm/dev/mcp/ctl", "reload\n")
	s.tool("dev", "s__tell")
	if text := s.call("dev", "s__tell", "{}"); !strings.Contains(text, "it is .") {
		t.Errorf("it says %s: %s", text, why())
	}
	s.write("profiles/default.toml", fmt.Sprintf("[mcpServers.s]\ncommand = \"sh\"\nargs = [\"-c\", \"exit 1\", %q]\n", folder))
	s.write("vm/dev/mcp/ctl", "reload\n")
	poll(t, "the hint", func() bool { return strings.Contains(why(), "does not show "+folder+": add "+line) })
	s.write("profiles/default.toml", fmt.Sprintf("[mcpServers.s]\ncommand = %q\nsandbox = false\nrun_as = \"no-such-user\"\n", program))
	s.write("vm/dev/mcp/ctl", "reload\n")
	poll(t, "no such user", func() bool { return strings.Contains(why(), "run_as no-such-user: there is no such user") })
	s.write("profiles/default.toml", fmt.Sprintf("[mcpServers.s]\ncommand = %q\nsandbox = false\n", program))
	if err := s.tryWrite("vm/dev/mcp/ctl", "reload\n"); os.Geteuid() == 0 && (err == nil || !strings.Contains(s.why(), `run_as = "USER"`)) {
		t.Errorf("root runs it as nobody said: %v, %s", err, s.why())
	}
}

// TestSandboxedDenied has a server ask for hosts that it may not reach, and does what
// its VM is told.
func TestSandboxedDenied(t *testing.T) {
	t.Parallel()
	need.Tool(t, "curl")
	s := serve(t, false)
	const ask = "curl -sS -m 20 -o /dev/null https://api.example.com/ http://other.example.com:8080/ https://api.example.com/ >&2\n"
	profile := fmt.Sprintf("[mcpServers.s]\ncommand = \"sh\"\nram = \"1GiB\"\ndisk = \"20MiB\"\nargs = [\"-c\", '''%s%s''']\n", ask, teller)
	s.write("profiles/default.toml", profile)
	s.vm("dev")
	s.tool("dev", "s__tell")
	wantText(t, s.read("vm/server-dev-s/config"), "ram 1GiB\n", "disk 20MiB\n")
	for host, line := range map[string]string{
		"api.example.com:443": `s: denied api.example.com:443: add allow = ["api.example.com:443"] to [mcpServers.s] of profile default`,
		"other.example.com":   `s: denied other.example.com:8080: add allow = ["other.example.com:8080"] to [mcpServers.s] of profile default`,
	} {
		poll(t, host, func() bool { return strings.Contains(s.read("vm/dev/log/agg"), line) })
		if text := s.read("vm/dev/log/agg"); strings.Count(text, line) != 1 {
			t.Errorf("%s is not told once: %s", host, text)
		}
		event, _ := json.Marshal(line)
		if text := s.read("vm/dev/log/security"); strings.Count(text, `"event":"server.denied","rule":null,"text":`+string(event)) != 1 {
			t.Errorf("%s is no event: %s", host, text)
		}
	}
	s.write("profiles/default.toml", fmt.Sprintf("[mcpServers.s]\ncommand = \"sh\"\nargs = [\"-c\", '''%sexit 1''']\n", ask))
	s.write("vm/dev/mcp/ctl", "reload\n")
	const line = `exit status 1; denied api.example.com:443, other.example.com:8080: add allow = ["api.example.com:443", "other.example.com:8080"] to [mcpServers.s] of profile default`
	poll(t, "the line to add", func() bool { return strings.Contains(s.read("vm/dev/mcp/servers"), line) })
}

// leaver is an MCP server for any shell that ends when it is called, before it has
// read the call. What it leaves behind holds its input, and does not read it.
const leaver = `exec 3<&0
while read -r line; do
	id=${line#*'"id":'}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"leaver","version":"1"}}';;
	*'"tools/list"'*) r='{"tools":[{"name":"leave","inputSchema":{"type":"object"}}]}';;
	*) continue;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
	case $line in *'"tools/list"'*) break;; esac
done
sleep 1000 <&3 >/dev/null 2>&1 &
head -c 1 >/dev/null
exit 7`

// TestSandboxedLeft has a server end while more is written to it than its input holds.
func TestSandboxedLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", fmt.Sprintf("[mcpServers.s]\ncommand = \"sh\"\nargs = [\"-c\", '''%s''']\n", leaver))
	s.vm("dev")
	s.tool("dev", "s__leave")
	text := s.cannotUse("vm/dev/mcp/tools/s__leave", `{"text":"`+strings.Repeat("x", 900<<10)+`"}`)
	if !strings.Contains(text, "exit status 7") {
		t.Errorf("the call says %s", text)
	}
}

// TestSandboxedShared has two VMs share the sandbox of a server, which stays when one
// of them goes.
func TestSandboxedShared(t *testing.T) {
	t.Parallel()
	s := serve(t, false)
	s.write("profiles/default.toml", fmt.Sprintf("[mcpServers.s]\ncommand = \"sh\"\nargs = [\"-c\", '''%s''']\nenv.TOKEN = \"t\"\nshared = true\n", teller))
	for _, vm := range []string{"a", "b"} {
		s.vm(vm)
		s.call(vm, "s__tell", "{}")
	}
	if text := s.read("vm/server-shared-s/status"); !strings.HasPrefix(text, "running\n") || !strings.Contains(text, "\nowner shared\n") {
		t.Errorf("the sandbox is %s", text)
	}
	s.write("vm/a/ctl", "stop\n")
	if err := s.client().Remove("vm/a"); err != nil {
		t.Fatal(err)
	}
	if text := s.call("b", "s__tell", "{}"); !strings.Contains(text, "it is t") {
		t.Errorf("the other VM is told %s", text)
	}
	if text := s.read("status"); strings.Count(text, "server-") != 1 {
		t.Errorf("the VMs are %s", text)
	}
}

// prying is an MCP server for any shell that tells what the programs beside it were given.
const prying = `while read -r line; do
	id=${line#*'"id":'}; id=${id%%[,\}]*}
	case $line in
	*'"initialize"'*) r='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"prying","version":"1"}}';;
	*'"tools/list"'*) r='{"tools":[{"name":"pry","inputSchema":{"type":"object"}}]}';;
	*'"tools/call"'*) r="{\"content\":[{\"type\":\"text\",\"text\":\"$(cat /proc/[0-9]*/environ | tr '\0' '\n' | grep ^MARK= | sort -u | tr '\n' ' ')\"}]}";;
	*) continue;;
	esac
	printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done`

// TestSandboxedSharedSecrets has two VMs share the sandbox of a server that reads what both
// gave their programs: no record has it, whoever came first.
func TestSandboxedSharedSecrets(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	profile := "[mcpServers.s]\ncommand = \"sh\"\nargs = [\"-c\", '''%s''']\nenv.MARK = \"secret:%s\"\nshared = true\n"
	for vm, secret := range map[string]string{"a": "kept-apart-of-a", "b": "kept-apart-of-b"} {
		s.write("secrets/"+vm, secret)
		s.write("profiles/"+vm+".toml", fmt.Sprintf(profile, prying, vm))
	}
	for _, vm := range []string{"a", "b"} {
		s.mkdir("vm/" + vm)
		s.write("vm/"+vm+"/ctl", "set profile "+vm+"\nstart\n")
		s.call(vm, "s__pry", "{}")
	}
	for _, vm := range []string{"a", "b"} {
		if text := s.call(vm, "s__pry", "{}"); !strings.Contains(text, "MARK=[redacted] MARK=[redacted]") {
			t.Errorf("a program of %s finds %s", vm, text)
		}
		if text := s.rows("vm/"+vm+"/db/query", "SELECT response_preview FROM mcp_calls WHERE method = 'tools/call';"); strings.Contains(text, "kept-apart") || !strings.Contains(text, "MARK=") {
			t.Errorf("the records of %s are %s", vm, text)
		}
	}
}

// TestSandboxedStuck has the sandboxes of servers hang: VMs that use them, its own or a
// shared one, end about as soon as they do without.
func TestSandboxedStuck(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	const table = "[mcpServers.%s]\ncommand = \"sh\"\nargs = [\"-c\", '''%s''']\n"
	s.write("profiles/default.toml", fmt.Sprintf(table, "own", teller)+fmt.Sprintf(table, "all", teller)+"shared = true\n")
	for _, vm := range []string{"stop", "kill"} {
		s.vm(vm)
		s.call(vm, "own__tell", "{}")
		s.call(vm, "all__tell", "{}")
	}
	for _, box := range []string{"server-stop-own", "server-kill-own", "server-shared-all"} {
		s.hang(box)
	}
	for _, verb := range []string{"stop", "kill"} {
		call := s.open("vm/"+verb+"/mcp/tools/own__tell/call", os.O_RDWR)
		defer call.Close()
		go call.WriteAt([]byte("{}\n"), 0) // which ends with the VM
		began := time.Now()
		s.write("vm/"+verb+"/ctl", verb+"\n")
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("%s took %v", verb, d)
		}
	}
}

// TestGuestHangs has hutch ps and hutch exec end where a guest does nothing any more.
func TestGuestHangs(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := serve(t, false)
	s.vm("dev")
	run := s.command("hutch", "exec", "dev", "sh", "-c", "echo begun; exec sleep 1000")
	printing(t, run).untilLine("begun")
	s.hang("dev")
	began := time.Now()
	out, err := s.command("hutch", "ps").CombinedOutput()
	if d := time.Since(began); err != nil || d > 10*time.Second || !strings.Contains(string(out), "the guest does not answer") {
		t.Errorf("ps: %v after %v: %s", err, d, out)
	}
	began = time.Now()
	run.Process.Signal(syscall.SIGTERM)
	run.Wait()
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("exec took %v", d)
	}
}

// rows returns what a ledger has in answer to a statement.
func (s *service) rows(query, statement string) string {
	s.t.Helper()
	f := s.open(query, os.O_RDWR)
	defer f.Close()
	fmt.Fprintln(f, statement)
	rows, err := io.ReadAll(f)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(rows)
}

// TestSandboxedOrdinary has the service of a user without power run servers in
// sandboxes and as itself, and as nobody else.
func TestSandboxedOrdinary(t *testing.T) {
	need.Patience(t)
	t.Parallel()
	s := ordinary(t)
	s.start()
	var profile string
	for server, more := range map[string]string{"inside": "", "host": "sandbox = false\n", "other": "sandbox = false\nrun_as = \"root\"\n"} {
		profile += fmt.Sprintf("[mcpServers.%s]\ncommand = \"sh\"\nargs = [\"-c\", '''%s''']\nenv.TOKEN = %q\n%s", server, teller, "of-"+server, more)
	}
	s.write("profiles/default.toml", profile)
	s.vm("dev")
	for _, server := range []string{"inside", "host"} {
		s.tool("dev", server+"__tell")
		if text := s.call("dev", server+"__tell", "{}"); !strings.Contains(text, "it is of-"+server) {
			t.Errorf("%s tells %s", server, text)
		}
	}
	poll(t, "the refusal", func() bool {
		return strings.Contains(s.read("vm/dev/mcp/servers"), "run_as root: hutchd is user 65534, and only root can start programs as somebody else")
	})
}
