// Agent is a guest's init that is nothing but hutch's agent. Under the name
// of show it is the only program of an image, and tells what it sees.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"hutch/relay/agent"
	"hutch/relay/port"
)

func main() {
	if filepath.Base(os.Args[0]) == "show" {
		show(os.Args[1:])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	agent.Prepare()
	a, err := agent.New(agent.Config{
		Init: true,
		Dial: func(ctx context.Context) (net.Conn, error) { return port.Dial(ctx, port.Agent) },
	})
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	if err := a.Run(ctx); err != nil {
		os.Exit(1)
	}
}

// show prints the variable, or the file, or the folder that each word names;
// a file named after a + is written to.
func show(words []string) {
	for _, w := range words {
		var text []byte
		var err error
		switch {
		case w[0] == '$':
			text = []byte(os.Getenv(w[1:]))
		case w[0] == '+':
			err = os.WriteFile(w[1:], []byte("written"), 0o644)
		default:
			text, err = os.ReadFile(w)
		}
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Printf("%s\n", text)
	}
}
