package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strings"
	"sync"

	"hutch/fs/accept"
)

// forwards measures connections that hutch forward carries into a VM, beside those
// to the same server on the host.
func (b *bencher) forwards() error {
	dir, end, err := begin(b.ctx, b.c, benchVM, "exec /opt/hutch/bin/hutch-guest echo")
	if err != nil {
		return err
	}
	defer end()
	out, err := b.c.open(path.Join(dir, "stdout"), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer out.Close()
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("echo in the VM: %w", err)
	}
	ctx, cancel := context.WithCancelCause(b.ctx)
	f := newForwarder(b.c, path.Join("vm", benchVM), cancel)
	defer f.work.Wait()
	defer cancel(nil)
	var far, near net.Listener
	if far, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	f.serve(ctx, far, strings.TrimSpace(port))
	if near, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	f.work.Go(func() { accept.Echo(ctx, near) })
	if err := b.pings(far, near); err != nil {
		return err
	}
	return b.echoes(far, near)
}

// pings measures how long 16 bytes take there and back.
func (b *bencher) pings(far, near net.Listener) error {
	for _, l := range []net.Listener{far, near} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		p := make([]byte, 16)
		err = b.times("16 bytes echoed"+where(l == far), "", 2000, func() error {
			_, err := c.Write(p)
			if err == nil {
				_, err = io.ReadFull(c, p)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// echoes measures connections that carry much both ways at once.
func (b *bencher) echoes(far, near net.Listener) error {
	const mib = 32
	text := bytes.Repeat([]byte("0123456789abcde\n"), mib<<20/16)
	for _, l := range []net.Listener{far, near} {
		err := b.times(fmt.Sprintf("%d MiB echoed", mib)+where(l == far), "", 20, func() error {
			return echo(l.Addr().String(), text)
		})
		if err != nil {
			return err
		}
		last := &b.figures[len(b.figures)-1]
		last.Rate, last.Unit = last.Rate*mib, "MiB/s"
	}
	return nil
}

func where(far bool) string {
	if far {
		return ", forwarded"
	}
	return ", on the host"
}

// echo sends text over a connection, while it reads what comes back.
func echo(addr string, text []byte) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	var sending sync.WaitGroup
	var sent error
	sending.Go(func() {
		_, err := c.Write(text)
		sent = cmp.Or(err, c.(*net.TCPConn).CloseWrite())
	})
	got, err := io.Copy(io.Discard, c)
	c.Close()
	sending.Wait()
	if err = cmp.Or(err, sent); err == nil && got != int64(len(text)) {
		err = fmt.Errorf("%d of %d bytes came back", got, len(text))
	}
	return err
}
