package main

import (
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
	"hutch/fs/ninep/client"
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
	s, err := startService(ctx, bin, true)
	if err != nil {
		return err
	}
	*address = s.addr
	d := &show{service: s, sdk: sdk}
	return s.stop(d.all(ctx))
}

// sdkPrograms builds the official Go SDK's example server and client, and
// returns their folder; "" outside the source tree.
func sdkPrograms(ctx context.Context) (string, error) {
	top := sourceTree(ctx)
	if top == "" {
		return "", nil
	}
	fmt.Fprint(os.Stderr, "building the MCP SDK's example server and client … ")
	const sdk = "github.com/modelcontextprotocol/go-sdk/examples/"
	dir := filepath.Join(top, "bin", "sdk")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", dir+"/", sdk+"server/everything", sdk+"client/listfeatures")
	cmd.Dir, cmd.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: go build: %w\n%s", fs.ErrIO, err, out)
	}
	fmt.Fprintln(os.Stderr, "done")
	return dir, nil
}

// A show is the demo under way.
type show struct {
	*service
	sdk  string
	c    *client.Conn
	http *exec.Cmd // an MCP server on loopback
}

func (d *show) all(ctx context.Context) error {
	c, err := dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	d.c = c
	if d.sdk != "" {
		if err := d.servers(ctx); err != nil {
			return err
		}
		defer d.endServers()
	}
	for _, act := range []func(context.Context) error{d.boot, d.commands, d.agent, d.ledger, d.over} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// servers starts an HTTP server of the SDK and writes a profile that names
// it, and the same program as a stdio server.
func (d *show) servers(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	addr := l.Addr().String()
	l.Close()
	everything := filepath.Join(d.sdk, "everything")
	d.http = exec.CommandContext(ctx, everything, "-http", addr)
	if err := d.http.Start(); err != nil {
		return err
	}
	return d.write("profiles/demo.toml", fmt.Sprintf(`[mcpServers.stdio]
command = %q

[mcpServers.http]
url = "http://%s"
`, everything, addr))
}

func (d *show) endServers() {
	d.http.Process.Kill()
	d.http.Wait()
}

func (d *show) boot(ctx context.Context) error {
	where := "9P at " + d.addr
	if d.mount != "none" {
		where = "mounted at " + d.mount + ", and " + where
	}
	d.say("A service runs: %s.", where)
	if err := d.cat("drivers"); err != nil {
		return err
	}
	d.say("A sandbox is a directory.")
	d.typed("mkdir vm/dev")
	if err := d.c.Mkdir("vm/dev", 0o755); err != nil {
		return explain(d.c, "vm/dev", err)
	}
	if d.sdk != "" {
		if err := d.echo("set profile demo", "vm/dev/ctl"); err != nil {
			return err
		}
	}
	if err := d.echo("start", "vm/dev/ctl"); err != nil {
		return err
	}
	return d.cat("vm/dev/status")
}

func (d *show) commands(ctx context.Context) error {
	d.say("A command is a directory too.")
	return d.command("t", "sh uname -a; id; ls /; echo to stderr >&2; exit 3")
}

func (d *show) agent(ctx context.Context) error {
	d.say("Inside, an agent finds MCP tools through hutch-relay.")
	if err := d.command("echo", `exec hutch-relay call local__echo '{"text":"hello from the sandbox"}'`); err != nil {
		return err
	}
	if err := d.command("file", `exec hutch-relay call file_write '{"path":"notes.txt","content":"written through MCP\n"}'`); err != nil {
		return err
	}
	if err := d.cat("vm/dev/work/notes.txt"); err != nil {
		return err
	}
	if err := d.command("refused", `exec hutch-relay call rm_rf '{"path":"/"}'`); err != nil {
		return err
	}
	if d.sdk == "" {
		return nil
	}
	d.say("The official Go SDK's client, inside, lists what two servers of the SDK outside offer, and one is called.")
	if err := copyFile(filepath.Join(d.sdk, "listfeatures"), d.c, "vm/dev/work/listfeatures"); err != nil {
		return err
	}
	if err := d.command("list", "exec /workspace/listfeatures hutch-relay"); err != nil {
		return err
	}
	if err := d.command("stdio", `exec hutch-relay call stdio__greet '{"name":"stdio"}'`); err != nil {
		return err
	}
	return d.command("http", `exec hutch-relay call http__greet '{"name":"streamable HTTP"}'`)
}

// ledger shows the calls as they stream, one of them made meanwhile.
func (d *show) ledger(ctx context.Context) error {
	d.say("Each call was decided and recorded. mcp/calls has all of them, and goes on as more come (log/mcp ends).")
	d.typed("cat vm/dev/mcp/calls | cut -c 1-150 &")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	const last = "still streaming"
	lines := &lineCutter{until: last, done: make(chan struct{})}
	streamed := make(chan error, 1)
	go func() { streamed <- copyOut(ctx, d.c, lines, "vm/dev/mcp/calls") }()
	if err := d.quiet("late", `exec hutch-relay call local__echo '{"text":"`+last+`"}'`); err != nil {
		return err
	}
	select {
	case <-lines.done:
		stop()
		<-streamed
		return nil
	case err := <-streamed:
		return err
	}
}

// A lineCutter prints the start of each line, until one has a text in it.
type lineCutter struct {
	until string
	done  chan struct{}
	part  string
	over  bool
}

func (w *lineCutter) Write(p []byte) (int, error) {
	w.part += string(p)
	for {
		line, rest, ok := strings.Cut(w.part, "\n")
		if !ok {
			return len(p), nil
		}
		w.part = rest
		fmt.Printf("%.150s\n", line)
		if strings.Contains(line, w.until) && !w.over {
			w.over = true
			close(w.done)
		}
	}
}

func (d *show) over(ctx context.Context) error {
	if err := d.echo("stop", "vm/dev/ctl"); err != nil {
		return err
	}
	d.typed("rmdir vm/dev")
	if err := d.c.Remove("vm/dev"); err != nil {
		return explain(d.c, "vm/dev", err)
	}
	d.say("Nothing is left of it. Start hutchd and read its README for the rest.")
	return nil
}

// command makes an exec, has it run message, and prints its files.
func (d *show) command(name, message string) error {
	dir := path.Join("vm/dev/exec", name)
	d.typed("mkdir " + dir)
	if err := d.c.Mkdir(dir, 0o755); err != nil {
		return explain(d.c, dir, err)
	}
	if err := d.echo(message, dir+"/ctl"); err != nil {
		return err
	}
	for _, f := range []string{"stdout", "stderr", "wait"} {
		if err := d.cat(path.Join(dir, f)); err != nil {
			return err
		}
	}
	return d.c.Remove(dir)
}

// quiet does what command does, without printing.
func (d *show) quiet(name, message string) error {
	dir := path.Join("vm/dev/exec", name)
	if err := d.c.Mkdir(dir, 0o755); err != nil {
		return explain(d.c, dir, err)
	}
	if err := writeFile(d.c, dir+"/ctl", message+"\n"); err != nil {
		return err
	}
	if _, err := readFile(d.c, dir+"/wait"); err != nil {
		return err
	}
	return d.c.Remove(dir)
}

func (d *show) say(format string, args ...any) { fmt.Printf("\n# "+format+"\n", args...) }
func (d *show) typed(line string)              { fmt.Println("$ " + line) }

func (d *show) echo(text, file string) error {
	d.typed("echo " + quoteForShell(text) + " >>" + file)
	return writeFile(d.c, file, text+"\n")
}

// quoteForShell shows text as a shell wants it.
func quoteForShell(text string) string {
	if !strings.ContainsAny(text, `'"$\{;&|<>`) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (d *show) cat(file string) error {
	text, err := readFile(d.c, file)
	if err != nil {
		return explain(d.c, file, err)
	}
	if text == "" {
		return nil
	}
	d.typed("cat " + file)
	fmt.Print(text)
	if !strings.HasSuffix(text, "\n") {
		fmt.Println()
	}
	return nil
}

func (d *show) write(file, text string) error {
	f, err := d.c.Create(file, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return explain(d.c, file, err)
	}
	_, err = f.Write([]byte(text))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// copyFile copies a program of the host into the tree.
func copyFile(from string, c *client.Conn, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := c.Create(to, os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return explain(c, to, err)
	}
	_, err = io.Copy(dst, src)
	if cerr := dst.Close(); err == nil {
		err = cerr
	}
	return err
}
