// Say prints where and as whom it runs, and its arguments.
package main

import (
	"fmt"
	"os"
)

func main() {
	dir, err := os.Getwd()
	fmt.Printf("%s %d:%d %q %q %v\n", dir, os.Getuid(), os.Getgid(), os.Getenv("COLOUR"), os.Args, err)
}
