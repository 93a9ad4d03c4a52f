package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hutch/aggd/rawjson"
	"hutch/profiles/runconfig"
)

// A serverJSON is what hutch reads of the registry's server.json, of its schema
// of 2025-12-11 and those before it since 2025-09-16.
type serverJSON struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Status      string `json:"status"`
	WebsiteURL  string `json:"websiteUrl"`
	Repository  struct {
		URL string `json:"url"`
	} `json:"repository"`
	Packages []packageJSON   `json:"packages"`
	Remotes  []transportJSON `json:"remotes"`
	Meta     metaJSON        `json:"_meta"`
}

type packageJSON struct {
	OldType         string         `json:"registry_type"` // before 2025-09-16
	OlderType       string         `json:"registry_name"` // before 2025-07
	RegistryType    string         `json:"registryType"`
	RegistryBaseURL string         `json:"registryBaseUrl"`
	Identifier      string         `json:"identifier"`
	Version         string         `json:"version"`
	Transport       transportJSON  `json:"transport"`
	Runtime         []argumentJSON `json:"runtimeArguments"`
	Args            []argumentJSON `json:"packageArguments"`
	Env             []inputJSON    `json:"environmentVariables"`
}

type transportJSON struct {
	OldType   string               `json:"transport_type"` // before 2025-09-16
	Type      string               `json:"type"`
	URL       string               `json:"url"`
	Headers   []inputJSON          `json:"headers"`
	Variables map[string]inputJSON `json:"variables"`
}

type inputJSON struct {
	Name        string               `json:"name"`
	Description string               `json:"description"`
	Value       string               `json:"value"`
	Default     string               `json:"default"`
	Required    bool                 `json:"isRequired"`
	Secret      bool                 `json:"isSecret"`
	Format      string               `json:"format"`
	Choices     []string             `json:"choices"`
	Variables   map[string]inputJSON `json:"variables"`
}

type argumentJSON struct {
	Type      string `json:"type"` // positional or named
	ValueHint string `json:"valueHint"`
	Fixed     bool   `json:"isFixed"` // of no schema: the hint is the word itself
	inputJSON
}

// A metaJSON has what a registry and the publisher add to a server.json.
type metaJSON struct {
	Official struct {
		Status   string `json:"status"`
		IsLatest *bool  `json:"isLatest"`
	} `json:"io.modelcontextprotocol.registry/official"`
	Publisher map[string]json.RawMessage `json:"io.modelcontextprotocol.registry/publisher-provided"`
}

// toolhive is the publisher whose extension is read.
const toolhive = "io.github.stacklok"

// errPassed is returned for what a registry lists and says itself that it does not
// count: another version is the latest, or it was deleted.
var errPassed = errors.New("passed over")

// errOld is returned for a server.json that has other names for its members.
var errOld = errors.New("it is of a schema from before 2025-09-16, which is not read: ask its registry for a later one")

// readUpstream returns the entry that the text of a server.json, or of an
// answer of the API with one in its member server, makes.
func readUpstream(text []byte) (*Entry, error) {
	var s serverJSON
	var answer struct {
		Server json.RawMessage `json:"server"`
		Meta   metaJSON        `json:"_meta"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, plain(err)
	}
	if answer.Server != nil {
		text = answer.Server
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return named(rawjson.GetString(text, "name"), plain(err))
	}
	official := answer.Meta.Official
	if answer.Server == nil {
		official = s.Meta.Official
	}
	if official.Status == "deleted" || s.Status == "deleted" || official.IsLatest != nil && !*official.IsLatest {
		return nil, errPassed
	}
	e := &Entry{
		Name: s.Name, Title: s.Title, Description: s.Description, Version: s.Version,
		Status: strings.ToLower(s.Status), Repository: s.Repository.URL, Website: s.WebsiteURL,
	}
	if official.Status != "" {
		e.Status = strings.ToLower(official.Status)
	}
	key, err := e.choose(&s)
	if err != nil {
		return named(e.Name, err)
	}
	if err := e.extend(s.Meta.Publisher[toolhive], key); err != nil {
		return named(e.Name, err)
	}
	return e, nil
}

func named(name string, err error) (*Entry, error) {
	return nil, fmt.Errorf("%.80q: %w", name, err)
}

// choose sets how the server is run: by the first package that can be run here, else
// as the first remote. It returns what the extension calls that.
func (e *Entry) choose(s *serverJSON) (key string, err error) {
	var errs []error
	for i := range s.Packages {
		p := &s.Packages[i]
		if err := e.byPackage(p); err != nil {
			errs = append(errs, err)
			continue
		}
		return p.Identifier, nil
	}
	for i := range s.Remotes {
		r := &s.Remotes[i]
		if err := e.byRemote(r); err != nil {
			errs = append(errs, err)
			continue
		}
		return r.URL, nil
	}
	if len(errs) == 0 {
		return "", errors.New("it has neither a package nor a remote")
	}
	return "", errs[0]
}

func (e *Entry) byPackage(p *packageJSON) error {
	kind := packageKindOf(p.RegistryType)
	switch {
	case p.OldType+p.OlderType != "":
		return errOld
	case kind == nil:
		return fmt.Errorf("packages of type %.40q are not run", p.RegistryType)
	}
	run, err := kind.run(p.Identifier, p.Version, strings.TrimSuffix(strings.ToLower(p.RegistryBaseURL), "/"))
	if err != nil {
		return err
	}
	transport, err := transportOf(p.Transport.Type)
	if err != nil {
		return err
	}
	own, passed := kind.split(p)
	args, err := arguments(slices.Concat(passed, p.Args))
	if err != nil {
		return err
	}
	e.Run, e.Transport, e.Args, e.Env = run, transport, args, inputs(p.Env)
	if transport != runconfig.Stdio {
		e.URL = p.Transport.URL
	}
	if v := p.Version; kind.kind == runconfig.Image && !hasVersion(run, v) {
		e.Notes = append(e.Notes, fmt.Sprintf("its package is of version %.60q, and its name says another, which counts", v))
	}
	e.runtime(kind, own)
	return nil
}

// split parts the arguments of what runs a package: its own, and those from the first word
// on that is no option. Npx and uvx would take that for the package to run: publishers who
// write it there mean it for the package that they tell of.
func (k *packageKind) split(p *packageJSON) (own, passed []argumentJSON) {
	if k.env != nil {
		return p.Runtime, nil
	}
	for i, a := range p.Runtime {
		word := cmp.Or(a.Value, a.Default)
		if a.Type == "named" && word == "" {
			word = a.Name
		}
		switch {
		case a.Type == "named" && word != a.Name || slices.Contains(k.idle, word):
		case strings.HasPrefix(word, "-"): // whose value may be the next word
			return p.Runtime, nil
		case strings.HasPrefix(word+"@", p.Identifier+"@"):
			return p.Runtime[:i+1], p.Runtime[i+1:]
		case word != "":
			return p.Runtime[:i], p.Runtime[i:]
		}
	}
	return p.Runtime, nil
}

// runtime takes what the arguments of npx, uvx or docker say of the environment.
// Others would loosen the sandbox, and are left out.
func (e *Entry) runtime(kind *packageKind, args []argumentJSON) {
	for _, a := range args {
		word := a.Name
		if word == "" {
			word = a.Value
		}
		if slices.Contains(kind.idle, word) {
			continue
		}
		name, value, ok := strings.Cut(a.Value, "=")
		if kind.env == nil || !slices.Contains(kind.env, a.Name) || !ok {
			e.Notes = append(e.Notes, fmt.Sprintf("the argument %.60q of what runs it is left out", strings.TrimSpace(a.Name+" "+a.Value)))
			continue
		}
		a.Name, a.Value = name, value
		in := a.input()
		if at := slices.IndexFunc(e.Env, func(o Input) bool { return o.Name == name }); at >= 0 {
			e.Env[at].join(in)
			continue
		}
		e.Env = append(e.Env, in)
	}
}

// join adds what is said of the input in another place.
func (in *Input) join(more Input) {
	if in.Value == "" && in.Default == "" {
		in.Value, in.Default, in.Variables = more.Value, more.Default, more.Variables
	}
	if len(in.Choices) == 0 {
		in.Choices = more.Choices
	}
	in.Description, in.Format = cmp.Or(in.Description, more.Description), cmp.Or(in.Format, more.Format)
	in.Required, in.Secret = in.Required || more.Required, in.Secret || more.Secret
}

func (e *Entry) byRemote(r *transportJSON) error {
	if r.OldType != "" {
		return errOld
	}
	transport, err := transportOf(r.Type)
	if err != nil {
		return err
	}
	switch {
	case transport == runconfig.Stdio:
		return errors.New("a remote does not speak stdio")
	case hostOf(r.URL) == "":
		return fmt.Errorf("%.100q is no URL like https://host/path", r.URL)
	}
	for _, p := range placeholder.FindAllString(r.URL, -1) {
		if _, told := r.Variables[strings.Trim(p, "{}")]; !told {
			if r.Variables == nil {
				r.Variables = map[string]inputJSON{}
			}
			r.Variables[strings.Trim(p, "{}")] = inputJSON{Required: true} // as nothing but its user can know it
		}
	}
	for i := range r.Headers {
		r.Headers[i].share(r.Variables)
	}
	e.Transport, e.Run, e.Headers, e.Variables = transport, r.URL, inputs(r.Headers), variables(r.Variables)
	return nil
}

// share gives an input those variables of the URL that its value names, and that are not its
// own: by the schema they are not for headers, and some publishers have them be.
func (in *inputJSON) share(of map[string]inputJSON) {
	for name, v := range of {
		if _, has := in.Variables[name]; !has && strings.Contains(in.Value, "{"+name+"}") {
			if in.Variables == nil {
				in.Variables = map[string]inputJSON{}
			}
			in.Variables[name] = v
		}
	}
}

// transportOf returns the transport of that name.
func transportOf(name string) (string, error) {
	switch name {
	case runconfig.Stdio, runconfig.SSE, runconfig.Streamable:
		return name, nil
	case "streamable": // before 2025-09
		return runconfig.Streamable, nil
	}
	return "", fmt.Errorf("transport %.40q is none of %s, %s and %s", name, runconfig.Stdio, runconfig.SSE, runconfig.Streamable)
}

func arguments(list []argumentJSON) ([]Argument, error) {
	var args []Argument
	for _, a := range list {
		if a.Fixed && a.Value == "" {
			a.Value, a.ValueHint = a.ValueHint, ""
		}
		arg := Argument{Input: a.input()}
		switch a.Type {
		case "named":
			arg.Flag = a.Name
		case "positional":
			arg.Name = a.ValueHint
		default:
			return nil, fmt.Errorf("argument type %.40q is neither positional nor named", a.Type)
		}
		args = append(args, arg)
	}
	return args, nil
}

func inputs(list []inputJSON) []Input {
	var all []Input
	for i := range list {
		all = append(all, list[i].input())
	}
	return all
}

// input returns the input. One whose value is a variable, and no more, is what
// the variable is, by the input's name.
func (in inputJSON) input() Input {
	if v, ok := in.Variables[strings.Trim(in.Value, "{}")]; ok && v.Value == "" && placeholder.FindString(in.Value) == in.Value {
		v.Name, v.Variables = in.Name, nil
		if v.Description == "" {
			v.Description = in.Description
		}
		v.Required, v.Secret = v.Required || in.Required, v.Secret || in.Secret
		in = v
	}
	format := in.Format
	if !slices.Contains(formats, format) { // "string" is any text, and so is what nobody can check
		format = ""
	}
	return Input{
		Name: in.Name, Description: in.Description, Value: in.Value, Default: in.Default, Required: in.Required,
		Secret: in.Secret, Format: format, Choices: in.Choices, Variables: variables(in.Variables),
	}
}

// variables returns variables by name, in order. They have none of their own.
func variables(of map[string]inputJSON) []Input {
	var all []Input
	for name, v := range of {
		v.Name, v.Variables = name, nil
		all = append(all, v.input())
	}
	slices.SortFunc(all, func(a, b Input) int { return strings.Compare(a.Name, b.Name) })
	return all
}
