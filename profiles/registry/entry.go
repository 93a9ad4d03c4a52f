package registry

import (
	"encoding/json"
	"slices"
	"strings"
)

// An Entry says what a run of an MCP server needs, as its registry has it.
// Nothing in it was tried: see Entry.Notes for what hutch knows better.
type Entry struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Version     string `json:"version,omitempty"`
	Status      string `json:"status,omitempty"` // active or deprecated, in lower case
	Tier        string `json:"tier,omitempty"`   // who stands for it, as Official or Community
	Transport   string `json:"transport"`        // as of a runconfig.Server
	// Run is how it is run: npx://PACKAGE@VERSION, uvx://PACKAGE@VERSION,
	// go://MODULE@VERSION, an image's reference, or the URL of a remote server,
	// in which {NAME} may stand for one of Variables.
	Run string `json:"run"`
	// URL is where a server that is no remote one listens for SSE or
	// Streamable, inside its sandbox; {NAME} is the value of that argument or
	// variable of the environment. It may be "", which says that the registry does not know.
	URL       string     `json:"url,omitempty"`
	Args      []Argument `json:"args,omitempty"`
	Env       []Input    `json:"env,omitempty"`
	Headers   []Input    `json:"headers,omitempty"`   // of requests to a remote server
	Variables []Input    `json:"variables,omitempty"` // of Run
	OAuth     *OAuth     `json:"oauth,omitempty"`     // how to log in to a remote server
	// Permissions is a permission profile, an object of ToolHive's form, or nil.
	Permissions json.RawMessage `json:"permissions,omitempty"`
	Tools       []string        `json:"tools,omitempty"` // names, as far as the registry knows them
	Tags        []string        `json:"tags,omitempty"`
	Repository  string          `json:"repository,omitempty"` // URL of its source
	Website     string          `json:"website,omitempty"`
	Provenance  *Provenance     `json:"provenance,omitempty"`
	Signature   string          `json:"signature"`       // what is known of who made what is run
	Notes       []string        `json:"notes,omitempty"` // what of the registry's text does not count here
	Source      string          `json:"source"`          // the source that it is of, as ctl names it
}

// An Input is a value that a run takes.
type Input struct {
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Value       string   `json:"value,omitempty"` // given by the registry; {NAME} stands for one of Variables
	Default     string   `json:"default,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Secret      bool     `json:"secret,omitempty"`
	Format      string   `json:"format,omitempty"` // one of formats; "" is any text
	Choices     []string `json:"choices,omitempty"`
	Variables   []Input  `json:"variables,omitempty"` // which have none of their own
}

// formats are what the value of an input can be beside any text.
var formats = []string{"number", "boolean", "filepath"}

// An Argument is one of the words that a server is started with, or two: a
// flag and its value. The name of its Input is what users call it.
type Argument struct {
	Flag string `json:"flag,omitempty"`
	Input
}

// OAuth says how to log in to a remote server, by ToolHive's names.
type OAuth struct {
	Issuer       string            `json:"issuer,omitempty"`
	AuthorizeURL string            `json:"authorize_url,omitempty"`
	TokenURL     string            `json:"token_url,omitempty"`
	ClientID     string            `json:"client_id,omitempty"`
	Scopes       []string          `json:"scopes,omitempty"`
	UsePKCE      bool              `json:"use_pkce,omitempty"`
	Params       map[string]string `json:"oauth_params,omitempty"`
	CallbackPort int               `json:"callback_port,omitempty"`
	Resource     string            `json:"resource,omitempty"`
}

// A Provenance is what a registry says of who built an image and signed it, by
// ToolHive's names.
type Provenance struct {
	SigstoreURL       string       `json:"sigstore_url,omitempty"`
	RepositoryURI     string       `json:"repository_uri,omitempty"`
	RepositoryRef     string       `json:"repository_ref,omitempty"`
	SignerIdentity    string       `json:"signer_identity,omitempty"`
	RunnerEnvironment string       `json:"runner_environment,omitempty"`
	CertIssuer        string       `json:"cert_issuer,omitempty"`
	Attestation       *Attestation `json:"attestation,omitempty"`
}

// An Attestation is what was attested of an image.
type Attestation struct {
	PredicateType string          `json:"predicate_type,omitempty"`
	Predicate     json.RawMessage `json:"predicate,omitempty"`
}

// What can be said of who made what is run. Sigstore's signatures are looked
// up in the image's registry and in sigstore's log, which hutch asks neither.
const (
	unsigned = "none: the registry names no signer"
	byDigest = "digest: what is pulled is what the registry named; who signed it is not verified"
	byName   = "not verified: the registry names a signer, and hutch does not ask sigstore"
)

// signature says what is known of who made what e runs.
func (e *Entry) signature() string {
	switch {
	case strings.Contains(e.Run, "@sha256:"):
		return byDigest
	case e.Provenance != nil && *e.Provenance != (Provenance{}):
		return byName
	}
	return unsigned
}

// Remote says whether the server runs elsewhere, at the URL that is its Run.
func (e *Entry) Remote() bool {
	return strings.HasPrefix(e.Run, "https://") || strings.HasPrefix(e.Run, "http://")
}

// NameOf returns the name of the entry whose file fs.FileName calls so. A name has no
// % of its own.
func NameOf(file string) string { return strings.Replace(file, "%2F", "/", 1) }

// A field is a part of an entry that words are looked for in.
type field struct {
	weight int
	of     func(*Entry) []string
}

// fields are tried in this order: the first that has a word counts.
var fields = []field{
	{8, func(e *Entry) []string { return []string{e.Name} }},
	{4, func(e *Entry) []string { return []string{e.Title} }},
	{4, func(e *Entry) []string { return e.Tags }},
	{2, func(e *Entry) []string { return e.Tools }},
	{1, func(e *Entry) []string { return []string{e.Description} }},
}

// rank tells how well the entry fits words, which are in lower case; 0 if one of
// them is nowhere in it.
func (e *Entry) rank(words []string) int {
	sum := 1
	for _, w := range words {
		at := slices.IndexFunc(fields, func(f field) bool {
			return slices.ContainsFunc(f.of(e), func(text string) bool { return strings.Contains(strings.ToLower(text), w) })
		})
		if at < 0 {
			return 0
		}
		sum += fields[at].weight
		if strings.ToLower(e.Name) == w {
			sum += fields[at].weight
		}
	}
	return sum
}
