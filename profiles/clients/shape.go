package clients

// A program is what a client starts to have an MCP server on its standard
// input and output.
type program struct {
	command string
	args    []string
}

// A field is a key of a server's entry, and its value: a string, a bool, an
// int, or a list of strings.
type field struct {
	key   string
	value any
}

// A shape says what a client wants to be told of a server that it starts.
// Where servers are a list, the name leads the entry without being said here.
type shape func(name string, p program) []field

func plain(_ string, p program) []field {
	return []field{{"command", p.command}, {"args", p.args}}
}

func typed(name string, p program) []field {
	return append([]field{{"type", "stdio"}}, plain(name, p)...)
}

// vibe gives the command as a list: Vibe splits a text into words, as a shell does.
func vibe(_ string, p program) []field {
	return []field{{"transport", "stdio"}, {"command", []string{p.command}}, {"args", p.args}}
}

func copilot(name string, p program) []field {
	return append(append([]field{{"type", "local"}}, plain(name, p)...), field{"tools", []string{"*"}})
}

func opencode(_ string, p program) []field {
	return []field{{"type", "local"}, {"command", append([]string{p.command}, p.args...)}, {"enabled", true}}
}

// goose gives a server 300 seconds for a call, as goose itself does.
func goose(name string, p program) []field {
	return []field{{"name", name}, {"type", "stdio"}, {"enabled", true}, {"cmd", p.command}, {"args", p.args}, {"timeout", 300}}
}

// entry returns what the client is told of a server.
func (c *Client) entry(name string, p program) []field {
	fields := c.says(name, p)
	if c.list {
		fields = append([]field{{"name", name}}, fields...)
	}
	return fields
}

// programOf returns the program that an entry of any shape has started, as far
// as it has one.
func programOf(entry any) (p program) {
	table, _ := entry.(map[string]any)
	for _, key := range []string{"command", "cmd"} {
		switch command := table[key].(type) {
		case string:
			p.command = command
		case []any: // with its arguments
			if all := texts(command); len(all) > 0 {
				p.command, p.args = all[0], all[1:]
			}
		}
	}
	if args, ok := table["args"].([]any); ok {
		p.args = texts(args)
	}
	return p
}

// texts returns the strings of a list; none if it has anything else.
func texts(list []any) []string {
	all := make([]string, 0, len(list))
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return nil
		}
		all = append(all, s)
	}
	return all
}
