package main

import (
	"context"
	"fmt"
	"net"

	"hutch/fs/accept"
)

// echo sends back whatever comes in on a port of the guest, which it prints.
func echo() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	return accept.Echo(context.Background(), l)
}
