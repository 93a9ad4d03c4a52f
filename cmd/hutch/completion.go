package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"hutch/fs"
)

// completions are scripts for shells. Each asks us, by completion words, what
// may come next.
var completions = map[string]string{
	"bash": `# bash completion for hutch: hutch completion bash
_hutch() {
	local line=${COMP_LINE:0:COMP_POINT} typed word stem=
	read -ra typed <<<"$line" # not COMP_WORDS, which a colon ends
	[[ $line == *[[:space:]] ]] && typed+=("")
	word=${typed[${#typed[@]}-1]}
	[[ $COMP_WORDBREAKS == *:* ]] && stem=${word%"${word##*:}"}
	COMPREPLY=()
	while IFS= read -r word; do # a guest may have named it
		COMPREPLY+=("$(printf %q "${word#"$stem"}")")
	done < <(hutch completion words "${typed[@]:1}" 2>/dev/null)
	[[ ${COMPREPLY[0]} == *[:/] ]] && compopt -o nospace 2>/dev/null
}
complete -o default -F _hutch hutch
`,
	"zsh": `#compdef hutch
# zsh completion for hutch: hutch completion zsh
_hutch() {
	local -a found
	found=("${(@f)$(hutch completion words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
	if [[ -n "${found[*]}" ]]; then
		compadd -S '' -- "${(@M)found:#*[:/]}"
		compadd -- "${(@)found:#*[:/]}"
	else
		_files
	fi
}
if [[ $funcstack[1] == _hutch ]]; then # from a folder of functions, when it is wanted first
	_hutch "$@"
else
	compdef _hutch hutch
fi
`,
	"fish": `# fish completion for hutch: hutch completion fish
function __hutch_words
	set -l typed (commandline -opc) (commandline -ct)
	hutch completion words $typed[2..-1] 2>/dev/null
end
complete -c hutch -f -a '(__hutch_words)'
complete -c hutch -F -n 'not count (__hutch_words) >/dev/null'
`,
}

// completion prints a shell's script, or with the first argument words, what
// may be the last of the others.
func completion(ctx context.Context, args []string) error {
	if args[0] == "words" {
		for _, w := range candidates(ctx, args[1:]) {
			fmt.Println(w)
		}
		return nil
	}
	script, ok := completions[args[0]]
	if !ok || len(args) > 1 {
		return misuse("hutch completion bash|zsh|fish")
	}
	_, err := os.Stdout.WriteString(script)
	return err
}

// candidates returns what may stand where typed ends.
func candidates(ctx context.Context, typed []string) []string {
	for len(typed) > 2 && typed[0] == "-s" {
		*address, typed = typed[1], typed[2:]
	}
	if len(typed) == 0 {
		typed = []string{""}
	}
	last := typed[len(typed)-1]
	var list []string
	if len(typed) == 1 {
		for _, c := range commands() {
			list = append(list, c.name)
		}
		return startingWith(list, last)
	}
	c := lookup(typed[0])
	if c == nil {
		return nil
	}
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	c.define(flags)
	if strings.HasPrefix(last, "-") {
		flags.VisitAll(func(f *flag.Flag) { list = append(list, "-"+f.Name) })
		return startingWith(list, last)
	}
	if before := typed[len(typed)-2]; len(typed) > 2 && strings.HasPrefix(before, "-") {
		if f := flags.Lookup(strings.TrimLeft(before, "-")); f != nil && !isSwitch(f) {
			return startingWith(named(ctx, strings.ToUpper(f.Name), nil), last)
		}
	}
	flags.Parse(typed[1 : len(typed)-1]) // what does not parse is the user's to mend
	return startingWith(c.argument(ctx, flags.Args(), last), last)
}

// isSwitch says whether f stands alone.
func isSwitch(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// argument returns what the command's argument after those before may be, as its line
// of the table names it: VMs, images and AI clients are those that there are.
func (c *command) argument(ctx context.Context, before []string, last string) []string {
	n := len(before)
	words := slices.DeleteFunc(strings.Fields(c.args), func(w string) bool { return w == "[FLAGS]" })
	if len(words) == 0 {
		return nil
	}
	word := words[min(n, len(words)-1)]
	if n >= len(words) && !strings.HasSuffix(word, "…") {
		return nil
	}
	word = strings.Trim(word, "[]…")
	switch first, _, several := strings.Cut(word, "|"); {
	case word == "FROM", word == "TO":
		return pathsIn(ctx, last)
	case several && strings.ToUpper(word) != word:
		return strings.Split(word, "|")
	case word == "ID" && c.name == "undo":
		return ask(ctx, path.Join("vm", before[0], "undo"), firstWords)
	default:
		return named(ctx, first, before)
	}
}

// named returns what an argument may be that the table of commands calls word, or the value
// of a flag of that name, behind the arguments before.
func named(ctx context.Context, word string, before []string) []string {
	of := append(slices.Clip(before), "")[0]
	switch word {
	case "OF":
		return endpoints(ctx)
	case "WHAT":
		return givable(ctx)
	case "TOOL":
		return tools(ctx, of)
	case "SECRET":
		return ask(ctx, "secrets", files)
	case "PROFILE":
		return ask(ctx, "profiles", profileNames)
	case "DRIVER":
		return ask(ctx, "drivers", firstWords)
	case "SNAP", "OTHER":
		return names(ctx, path.Join("vm", of, "snap"))
	case "KEY":
		return ask(ctx, path.Join("vm", of, "config"), func(c *tree, name string) ([]string, error) {
			text, err := readFile(c, name)
			return slices.Collect(maps.Keys(valuesOf(text))), err
		})
	}
	return names(ctx, namedIn[word])
}

// namedIn are the folders with what words of the table of commands stand for.
var namedIn = map[string]string{"VM": "vm", "SERVER": "servers", "GROUP": "groups", "ID": "asks", "IMAGE": "images", "CLIENT": "clients", "ENTRY": "registry/servers"}

// firstWords returns the first word of each line of a file.
func firstWords(c *tree, name string) (list []string, err error) {
	text, err := readFile(c, name)
	for line := range strings.Lines(text) {
		word, _ := fs.CutBlank(strings.TrimSpace(line))
		list = append(list, word)
	}
	return list, err
}

func profileNames(c *tree, dir string) (list []string, err error) {
	names, err := files(c, dir)
	for _, name := range names {
		if profile, ok := strings.CutSuffix(name, ".toml"); ok {
			list = append(list, profile)
		}
	}
	return list, err
}

// pathsIn returns the paths in a VM that are in the folder of what was typed, or the VMs
// where none is named yet. Where nothing fits, the shell completes a file here.
func pathsIn(ctx context.Context, begun string) (list []string) {
	vm, name, inVM := place(begun)
	if !inVM {
		for _, vm := range names(ctx, "vm") {
			list = append(list, vm+":")
		}
		return list
	}
	above := name[:strings.LastIndexByte(name, '/')+1]
	return ask(ctx, above, func(c *tree, above string) ([]string, error) {
		dir, err := guestPath(c, vm, above)
		if err != nil {
			return nil, err
		}
		entries, err := c.readDir(dir)
		for _, e := range entries {
			found := vm + ":" + above + e.Name
			if e.Mode.IsDir() {
				found += "/"
			}
			if fs.PlainLine(found) == found { // a shell reads a line of ours for each
				list = append(list, found)
			}
		}
		return list, err
	})
}

// names returns what has a folder in dir of the tree; nothing of "".
func names(ctx context.Context, dir string) []string {
	if dir == "" {
		return nil
	}
	return ask(ctx, dir, things)
}

// ask returns what list finds in dir of the tree; nothing if that is not to be had
// soon.
func ask(ctx context.Context, dir string, list func(*tree, string) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := dial(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	found, _ := list(c, dir)
	return found
}

// startingWith returns those of list that begin so.
func startingWith(list []string, so string) []string {
	return slices.DeleteFunc(list, func(w string) bool { return !strings.HasPrefix(w, so) })
}
