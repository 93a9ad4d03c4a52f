package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"hutch/fs"
)

// demo builds everything, brings up a service of its own, and shows a
// sandbox at work: commands through files, MCP clients inside, their calls
// streaming out. What it prints after $ is what it did, through the tree.
func demo(ctx context.Context, _ []string) error {
	bin, err := programs(ctx)
	if err != nil {
		return err
	}
	sdk, err := sdkPrograms(ctx)
	if err != nil {
		return err
	}
	return withService(ctx, bin, func(s *service, c *tree) error {
		d := &show{service: s, sdk: sdk, c: c}
		return d.all(ctx)
	})
}

// sdkPrograms builds the official Go SDK's example server and client, and
// returns their folder; "" outside the source tree.
func sdkPrograms(ctx context.Context) (string, error) {
	top := sourceTree(ctx)
	if top == "" {
		return "", nil
	}
	const sdk = "github.com/modelcontextprotocol/go-sdk/examples/"
	dir := filepath.Join(top, "bin", "sdk")
	if err := goBuild(ctx, top, "the MCP SDK's example server and client", "-o", dir+"/", sdk+"server/everything", sdk+"client/listfeatures"); err != nil {
		return "", err
	}
	return dir, nil
}

// A show is the demo under way. Nothing of it is done after an error.
type show struct {
	*service
	sdk string
	c   *tree
	err error
}

func (d *show) all(ctx context.Context) error {
	if d.sdk != "" {
		end, err := d.servers(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	d.boot()
	d.say("A command is a directory too.")
	d.command("t", "sh uname -a; id; ls /; echo to stderr >&2; exit 3")
	d.agent()
	d.ledger(ctx)
	d.echo("stop", "vm/dev/ctl")
	d.do("rmdir vm/dev", func() error { return d.c.remove("vm/dev") })
	d.say("Nothing is left of it. Start hutchd and read its README for the rest.")
	return d.err
}

// servers starts an HTTP server of the SDK, which end ends, and writes a
// profile that names it, and the same program as a stdio server.
func (d *show) servers(ctx context.Context) (end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := l.Addr().String()
	l.Close()
	everything := filepath.Join(d.sdk, "everything")
	http := exec.CommandContext(ctx, everything, "-http", addr)
	if err := http.Start(); err != nil {
		return nil, err
	}
	end = func() {
		http.Process.Kill()
		http.Wait()
	}
	text := fmt.Sprintf("[mcpServers.stdio]\ncommand = %q\nread = [%q]\n\n[mcpServers.http]\nurl = \"http://%s\"\n", everything, d.sdk, addr)
	if err = setFile(d.c, "profiles/demo.toml", 0o600, text); err != nil {
		end()
	}
	return end, err
}

func (d *show) boot() {
	where := "9P at " + d.addr
	if d.mount != "none" {
		where = "mounted at " + d.mount + ", and " + where
	}
	d.say("A service runs: " + where + ".")
	d.cat("drivers")
	d.say("A sandbox is a directory.")
	d.mkdir("vm/dev")
	if d.sdk != "" {
		d.echo("set profile demo", "vm/dev/ctl")
	}
	d.echo("start", "vm/dev/ctl")
	d.cat("vm/dev/status")
}

func (d *show) agent() {
	d.say("Inside, an agent finds MCP tools through hutch-relay.")
	d.command("echo", `exec hutch-relay call local__echo '{"text":"hello from the sandbox"}'`)
	d.command("file", `exec hutch-relay call file_write '{"path":"notes.txt","content":"written through MCP\n"}'`)
	d.cat("vm/dev/work/notes.txt")
	d.command("refused", `exec hutch-relay call rm_rf '{"path":"/"}'`)
	if d.sdk == "" {
		return
	}
	d.say("The official Go SDK's client, inside, lists what two servers of the SDK outside offer, and one is called.")
	d.do("", func() error {
		return copyFileIn(d.c, filepath.Join(d.sdk, "listfeatures"), "vm/dev/work/listfeatures", 0o755)
	})
	d.command("list", "exec /workspace/listfeatures hutch-relay")
	d.command("stdio", `exec hutch-relay call stdio__greet '{"name":"stdio"}'`)
	d.command("http", `exec hutch-relay call http__greet '{"name":"streamable HTTP"}'`)
}

// ledger shows the calls as they stream, one of them made meanwhile.
func (d *show) ledger(ctx context.Context) {
	d.say("Each call was decided and recorded. mcp/calls has all of them, and goes on as more come (log/mcp ends).")
	d.do("cat vm/dev/mcp/calls | cut -c 1-150 &", func() error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		calls, to := io.Pipe()
		defer calls.Close()
		go func() { to.CloseWithError(copyFile(ctx, d.c, to, "vm/dev/mcp/calls", os.O_RDONLY)) }()
		const last = "still streaming"
		if _, err := run(ctx, d.c, "dev", `exec hutch-relay call local__echo '{"text":"`+last+`"}'`); err != nil {
			return err
		}
		for lines := bufio.NewReader(calls); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return err
			}
			fmt.Printf("%.150s\n", strings.TrimSuffix(line, "\n"))
			if strings.Contains(line, last) {
				return nil
			}
		}
	})
}

// command makes an exec, has it run message, and prints its files.
func (d *show) command(name, message string) {
	dir := path.Join("vm/dev/exec", name)
	d.mkdir(dir)
	d.echo(message, dir+"/ctl")
	for _, f := range []string{"stdout", "stderr", "wait"} {
		d.cat(path.Join(dir, f))
	}
	d.do("", func() error { return d.c.remove(dir) })
}

func (d *show) say(text string) {
	if d.err == nil {
		fmt.Println("\n# " + text)
	}
}

// do does what line says, and prints it if there is one.
func (d *show) do(line string, act func() error) {
	if d.err != nil {
		return
	}
	if line != "" {
		fmt.Println("$ " + line)
	}
	d.err = act()
}

func (d *show) mkdir(dir string) {
	d.do("mkdir "+dir, func() error { return d.c.mkdir(dir, 0o755) })
}

func (d *show) echo(text, file string) {
	d.do("echo "+fs.ShellWord(text)+" >>"+file, func() error { return writeFile(d.c, file, text+"\n") })
}

// cat prints a file that is not empty.
func (d *show) cat(file string) {
	d.do("", func() error {
		text, err := readFile(d.c, file)
		if err != nil || text == "" {
			return err
		}
		_, err = fmt.Println("$ cat " + file + "\n" + strings.TrimSuffix(text, "\n"))
		return err
	})
}
