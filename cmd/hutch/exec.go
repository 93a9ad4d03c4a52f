package main

import (
	"context"
	"flag"
	"strings"
)

// defineExec has the command that runs a command in a VM that is there.
func defineExec(flags *flag.FlagSet) action {
	o := defineOptions(flags)
	return func(ctx context.Context, args []string) error {
		vm, words := args[0], args[1:]
		switch {
		case words[0] == "--":
			words = words[1:]
		case strings.HasPrefix(words[0], "-"):
			return misused("exec", words[0]+": flags stand before the VM, and -- behind it before a program's name with a dash")
		}
		if len(words) == 0 {
			return misuse(lookup("exec").usage())
		}
		dir, err := vmDir(vm)
		if err != nil {
			return err
		}
		return connected(func(ctx context.Context, c *tree, words []string) error {
			image, err := imageOf(c, dir)
			if err != nil {
				return noVM(c, vm, err)
			}
			o.defaults(image)
			return execute(ctx, c, dir, words, o)
		})(ctx, words)
	}
}
