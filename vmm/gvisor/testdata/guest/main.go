// Guest is the init of the sandboxes that this package's tests start. It
// connects to the agent's port and runs each line that comes as a command,
// answering with the length of its output, a newline, and the output.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"hutch/relay/port"
)

func main() {
	for {
		if c, err := port.Dial(context.Background(), port.Agent); err == nil {
			serve(c)
			c.Close()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func serve(c net.Conn) {
	in := bufio.NewScanner(c)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if in.Text() == "shutdown" {
			fmt.Println("guest: shut down")
			os.Exit(0)
		}
		out, err := exec.Command("/bin/sh", "-c", in.Text()).CombinedOutput()
		if err != nil {
			out = append(out, err.Error()...)
		}
		fmt.Fprintf(c, "%d\n%s", len(out), out)
	}
}
