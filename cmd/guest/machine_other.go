//go:build !linux

package main

// runMachine does nothing: machines run Linux.
func runMachine() {}
