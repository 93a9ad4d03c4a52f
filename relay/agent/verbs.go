package agent

import (
	"fmt"
	"strconv"
	"syscall"
	"time"

	"hutch/fs"
	"hutch/fs/quantity"
)

type verb = fs.Verb[place]

var agentVerbs = []verb{
	{Name: "shutdown", Doc: "end every command, and the guest", Do: doShutdown},
	{Name: "sync", Doc: "write out what the guest's kernel keeps in memory of its files", Do: doSync},
	{Name: "env", Args: "K V", Min: 2, Max: 2, Doc: "a variable for every command to come", Do: doAgentEnv},
	{Name: "clock", Args: "NANOSECONDS", Min: 1, Max: 1, Doc: "the host's time, for a guest with a clock of its own", Do: doClock},
	{Name: "hostname", Args: "NAME", Min: 1, Max: 1, Doc: "the name of a guest with a kernel of its own", Do: doHostname},
}

var execVerbs = []verb{
	{Name: "exec", Args: "WORDS…", Min: 1, Max: -1, Doc: "start a program", Do: doExec},
	{Name: "sh", Args: "LINE", Raw: true, Shell: true, Doc: "start a shell with the rest of the line", Do: doSh},
	{Name: "dir", Args: "PATH", Min: 1, Max: 1, Doc: "where it starts", Do: doDir},
	{Name: "env", Args: "K V", Min: 2, Max: 2, Doc: "a variable of its environment", Do: doEnv},
	{Name: "user", Args: "UID", Min: 1, Max: 1, Doc: "whom it runs as: UID, UID:GID or a name", Do: doUser},
	{Name: "tty", Args: "ROWS COLS", Min: 2, Max: 2, Doc: "run on a terminal; its size", Do: doTTY},
	{Name: "dispatch", Args: "ID", Min: 1, Max: 1, Doc: "what its wait is to say, too", Do: doDispatch},
	{Name: "scrub", Args: "PREFIX…", Min: 1, Max: -1, Doc: "without the variables whose names begin so", Do: doScrub},
	{Name: "timeout", Args: "TIME", Min: 1, Max: 1, Doc: "end it after TIME; 0 for never", Do: doTimeout},
	{Name: "limit", Args: "SIZE", Min: 1, Max: 1, Doc: "how much of each output is kept", Do: doLimit},
	{Name: "signal", Args: "NAME", Min: 1, Max: 1, Doc: "to all that it started", Do: doSignal},
	{Name: "kill", Doc: "end it and all that it started", Do: doKill},
	{Name: "killonclose", Doc: "kill when the last of its files is closed", Do: doKillOnClose},
	{Name: "hold", Doc: "end its input by eof alone", Do: doHold},
	{Name: "eof", Doc: "end its input", Do: doEOF},
}

// doShutdown lets whoever asks have the answer first.
func doShutdown(c call, _ []string) error {
	c.At.from.afterAnswer(c.At.a.Shutdown)
	return nil
}

// doSync leaves a machine alone that is not the agent's.
func doSync(c call, _ []string) error {
	if c.At.a.cfg.Init {
		syscall.Sync()
	}
	return nil
}

// doClock leaves the clock alone that is the host's.
func doClock(c call, args []string) error {
	n, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: time %q: want nanoseconds since 1970", fs.ErrInvalid, args[0])
	}
	if m := c.At.a.cfg.Machine; m != nil {
		return m.SetClock(time.Unix(0, n))
	}
	return nil
}

// doHostname leaves a name alone that is not the guest's to change.
func doHostname(c call, args []string) error {
	if m := c.At.a.cfg.Machine; m != nil {
		return m.SetHostname(args[0])
	}
	return nil
}

func doAgentEnv(c call, args []string) error {
	if err := checkEnv(args[0], args[1]); err != nil {
		return err
	}
	c.At.a.setEnv(args[0], &args[1])
	return nil
}

func doExec(c call, args []string) error { return c.At.c.run(args) }

func doSh(c call, args []string) error { return c.At.c.run([]string{"/bin/sh", "-c", args[0]}) }

func doDir(c call, args []string) error {
	return c.At.c.change(func(s *settings) { s.dir = args[0] })
}

func doEnv(c call, args []string) error {
	if err := checkEnv(args[0], args[1]); err != nil {
		return err
	}
	return c.At.c.change(func(s *settings) {
		if s.env == nil {
			s.env = make(map[string]string)
		}
		s.env[args[0]] = args[1]
	})
}

func doDispatch(c call, args []string) error {
	return c.At.c.change(func(s *settings) { s.dispatch = args[0] })
}

func doScrub(c call, args []string) error {
	return c.At.c.change(func(s *settings) { s.scrub = args })
}

func doUser(c call, args []string) error {
	if _, err := parseLogin(args[0]); err != nil {
		return err
	}
	return c.At.c.change(func(s *settings) { s.user = args[0] })
}

func doTTY(c call, args []string) error {
	to, err := parseSize(args[0], args[1])
	if err != nil {
		return err
	}
	return c.At.c.resize(to)
}

func doTimeout(c call, args []string) error {
	d, err := quantity.Timeout(args[0])
	if err != nil {
		return fmt.Errorf("%w: timeout %w", fs.ErrInvalid, err)
	}
	c.At.c.set(func(s *settings) { s.timeout = d })
	return nil
}

func doLimit(c call, args []string) error {
	n, err := quantity.Size(args[0])
	if err != nil {
		return fmt.Errorf("%w: limit %w", fs.ErrInvalid, err)
	}
	if n < minLimit {
		return fmt.Errorf("%w: limit %s: at least %d bytes", fs.ErrInvalid, args[0], minLimit)
	}
	c.At.c.set(func(s *settings) { s.limit = n })
	return nil
}

func doSignal(c call, args []string) error {
	sig, err := parseSignal(args[0])
	if err != nil {
		return err
	}
	return c.At.c.signal(sig)
}

func doKill(c call, _ []string) error { return c.At.c.signal(syscall.SIGKILL) }

func doKillOnClose(c call, _ []string) error {
	c.At.c.set(func(s *settings) { s.killOnClose = true })
	return nil
}

func doHold(c call, _ []string) error { return c.At.c.stdin.hold() }

func doEOF(c call, _ []string) error { return c.At.c.stdin.eof(c.Ctx) }
