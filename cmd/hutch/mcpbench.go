package main

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"hutch/fs"
	"hutch/fs/ninep"
)

// hostMCP measures how long hutch mcp takes from its start to its list of
// tools, beside this program's start to its first word.
func (b *bencher) hostMCP() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	addr := cmp.Or(*address, ninep.DefaultAddress())
	err = b.starts("hutch mcp: start to tools/list", "≤ 30 ms", `{"jsonrpc":"2.0","id":1,"result"`, self, "-s", addr, "mcp")
	if err != nil {
		return err
	}
	return b.starts("hutch completion: start to first line", "", "#", self, "completion", "bash")
}

// starts adds a figure of how long a program takes from its start to its first
// line, which begins with want. Its end does not count.
func (b *bencher) starts(what, target, want string, words ...string) error {
	var last *exec.Cmd
	end := func() error {
		if last != nil {
			last.Process.Kill()
			last.Wait()
		}
		return nil
	}
	defer end()
	return b.repeat(what, target, 50, end, func() error {
		last = exec.CommandContext(b.ctx, words[0], words[1:]...)
		last.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n")
		out, err := last.StdoutPipe()
		if err == nil {
			err = last.Start()
		}
		if err != nil {
			return err
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, want) {
			return fmt.Errorf("%w: %s printed %.80q", fs.ErrIO, strings.Join(words, " "), line)
		}
		return nil
	})
}
