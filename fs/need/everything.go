package need

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Everything returns node and the program of the MCP reference server,
// @modelcontextprotocol/server-everything, as npm installs it in $HUTCH_NPM.
func Everything(t testing.TB) (nodejs, program string) {
	t.Helper()
	return NPM(t, "@modelcontextprotocol/server-everything")
}

// Clock matches the time of day that some answers of the reference server
// tell, as text and at the end of a base64 text.
var Clock = regexp.MustCompile(`\d+:\d+:\d+(\s|\x{202f})?([AP]M)?|UmVzb3VyY2UgMjogVGhpcyBpcyBhIGJhc2U2NCBibG9i[^"]*`)

// ServeEverything runs the reference server over streamable HTTP until the
// test has ended, and returns its URL.
func ServeEverything(t testing.TB) string {
	t.Helper()
	nodejs, program := Everything(t)
	var said string
	for range 5 { // somebody may take the port before the server does
		url, err := serveEverything(t, nodejs, program)
		if err == nil {
			return url
		}
		said = err.Error()
	}
	t.Fatal(said)
	return ""
}

func serveEverything(t testing.TB, nodejs, program string) (url string, err error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	dir := t.TempDir()
	Sweep(t, dir)
	cmd := exec.Command(nodejs, program, "streamableHttp", dir+"/") // whose last argument is for Sweep
	cmd.Env = append(os.Environ(), "PORT="+port)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewReader(stderr)
	for said := ""; !strings.Contains(said, "listening on port"); {
		line, err := lines.ReadString('\n')
		if said += line; err != nil {
			return "", fmt.Errorf("the reference server ended: %s", said)
		}
	}
	go io.Copy(io.Discard, lines)
	url = "http://127.0.0.1:" + port + "/mcp"
	if resp, err := http.Get(url); err == nil {
		resp.Body.Close()
	}
	return url, nil
}

// freePort returns a port of the loopback that nobody has at the moment.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
