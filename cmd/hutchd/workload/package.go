package workload

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"

	"hutch/aggd/wire"
	"hutch/profiles/reference"
	"hutch/profiles/runconfig"
)

// A pack is a package that a server is: how it is installed in the sandbox, and what
// runs then.
type pack struct {
	tool    string   // that installs it, as a command of the host
	script  string   // of a shell: $1 is the folder to install in, $2 what, $3 the package's name
	what    string   // as the tool has it
	name    string   // of the package
	program string   // of the guest, which runs then
	moves   bool     // what it names may be another version tomorrow
	folder  string   // of this machine, that the package is; "": it is had from a registry
	given   []string // the variables of hutchd's environment that say where packages are had
	hosts   []string // that they are had from, with their ports
}

// installed is where a sandbox has its package: in its workspace, which stays.
const installed = home + "/.hutch"

// packOf returns the package that a source is; ok is false if it is none.
func packOf(s runconfig.Source) (p pack, ok bool) {
	dir := path.Join(installed, string(s.Kind))
	switch s.Kind {
	case runconfig.NPX:
		p = pack{tool: "npm", script: npmScript, name: s.Name, what: s.Name + "@" + cmp.Or(s.Version, "latest")}
		p.program = path.Join(dir, "server", path.Base(s.Name))
		p.moves = !exactNPM.MatchString(s.Version)
		p.given = []string{"npm_config_registry"}
		p.from("npm_config_registry", "https://registry.npmjs.org/")
	case runconfig.UVX:
		p = pack{tool: "uv", script: uvScript, name: s.Name, what: s.Name}
		if s.Extras != "" {
			p.what += "[" + s.Extras + "]"
		}
		if p.moves = s.Version == "" || s.Version == "latest"; !p.moves {
			p.what += "==" + s.Version
		}
		p.program = path.Join(dir, "bin", s.Name)
		p.given = []string{"UV_DEFAULT_INDEX"}
		p.from("UV_DEFAULT_INDEX", "https://pypi.org/simple")
		p.hosts = append(p.hosts, "files.pythonhosted.org:443")
	case runconfig.Go:
		p = pack{tool: "go", script: goScript, name: s.Name, what: s.Name + "@" + cmp.Or(s.Version, "latest"), folder: s.Path()}
		p.program = path.Join(dir, "bin", path.Base(majorVersion.ReplaceAllString(s.Name, "")))
		p.moves = !exactGo.MatchString(s.Version)
		if p.folder != "" {
			p.what, p.script, p.program = s.Name, goFolderScript, path.Join(dir, "bin", path.Base(s.Name))
		}
		p.given = []string{"GOPROXY", "GOSUMDB", "GONOSUMDB", "GOTOOLCHAIN"}
		p.from("GOPROXY", "https://proxy.golang.org")
		p.hosts = append(p.hosts, "sum.golang.org:443", "storage.googleapis.com:443")
	default:
		return pack{}, false
	}
	return p, true
}

// The scripts that install a package anew, or bring what is there up to date. That of
// npm makes a link to the program that npx starts: the only one that the package has,
// or that of its name. What would fetch a browser is told not to, as that could only fail, and
// what is compiled finds the headers of Node here, if they are.
const (
	npmScript = `export npm_config_update_notifier=false PUPPETEER_SKIP_DOWNLOAD="${PUPPETEER_SKIP_DOWNLOAD-1}" PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD="${PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD-1}"
node=$(readlink -f "$(command -v node)")
[ -e "${node%/bin/node}/include/node/node.h" ] && export npm_config_nodedir="${npm_config_nodedir-${node%/bin/node}}"
if [ -e "$1/whole" ]; then
	newest=$(npm view --json --loglevel=error --logs-max=0 --fetch-retry-mintimeout=1000 -- "$2" version) || exit
	node -e '
const [at, newest] = process.argv.slice(1);
process.exit(JSON.parse(fs.readFileSync(at)).version === [].concat(JSON.parse(newest)).at(-1) ? 0 : 1);
' "$1/lib/node_modules/$3/package.json" "$newest" && exit
	rm -f "$1/whole"
fi
npm install --global --prefix "$1" --foreground-scripts --no-audit --no-fund --loglevel=error --logs-max=0 --fetch-retry-mintimeout=1000 -- "$2" &&
node -e '
const fs = require("fs"), path = require("path"), [dir, name, npm] = process.argv.slice(1), base = name.replace(/.*\//, "");
const at = path.join(dir, "lib/node_modules", name), says = JSON.parse(fs.readFileSync(path.join(at, "package.json"))), bin = says.bin || {};
const programs = typeof bin === "string" ? { [base]: bin } : bin, all = [...new Set(Object.values(programs))];
const file = all.length === 1 ? all[0] : programs[base];
if (!file) {
	const names = Object.keys(programs);
	console.error(name + (names.length ? " has no program of its name: " + names.join(" ") : " has no program: it is none to run as a server"));
	process.exit(1);
}
fs.mkdirSync(path.join(dir, "server"), { recursive: true });
fs.rmSync(path.join(dir, "server", base), { force: true });
fs.symlinkSync(path.join(at, file), path.join(dir, "server", base));
fs.writeFileSync(path.join(dir, "node"), process.version);
try {
	const { satisfies, validRange } = require("module").createRequire(fs.realpathSync(npm))("semver"), wanted = validRange(says.engines.node);
	if (wanted && !satisfies(process.version, wanted, { includePrerelease: true }))
		console.error(name + " wants node " + says.engines.node + ", and this is " + process.version);
} catch {} // the package does not say, or this npm has no semver
' "$1" "$3" "$(command -v npm)" && touch "$1/whole"`
	uvScript = `export UV_TOOL_DIR="$1/tools" UV_TOOL_BIN_DIR="$1/bin"
uv tool install --no-progress --force --upgrade -- "$2" || exit
[ -x "$1/bin/$3" ] || { echo "$3 has no program of its name:" $(ls "$1/bin"); exit 1; }`
	goScript       = `GOBIN="$1/bin" exec go install -- "$2"`
	goFolderScript = `cd -- "$2" && name=$(go list -f '{{.Name}}' .) || exit
[ "$name" = main ] || { echo "$2 is the package $name, and no program"; exit 1; }
exec go build -buildvcs=false -o "$1/bin/${2##*/}" .`
)

var (
	exactNPM     = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)
	exactGo      = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$`)
	majorVersion = regexp.MustCompile(`/v[0-9]+$`)
)

// from adds the host of the URL that a variable of hutchd has, or of the other.
func (p *pack) from(variable, otherwise string) {
	for _, text := range []string{os.Getenv(variable), otherwise} {
		text, _, _ = strings.Cut(text, ",")
		u, err := url.Parse(text)
		if err != nil || u.Hostname() == "" {
			continue
		}
		port := u.Port()
		switch {
		case port != "":
		case u.Scheme == "http":
			port = "80"
		default:
			port = "443"
		}
		p.hosts = append(p.hosts, net.JoinHostPort(u.Hostname(), port))
		return
	}
}

// network is what may be reached while the package is installed. Its hosts may be of
// the inside: a mirror is, and so is what stands for the registry in some networks.
func (p *pack) network() wire.Network {
	n := wire.Network{Allow: p.hosts, Advice: "nothing: while a package is installed it has its registry's hosts only"}
	for _, at := range p.hosts {
		host, _, _ := net.SplitHostPort(at)
		n.Private = append(n.Private, host)
	}
	return n
}

// environment is what the tool gets that installs the package: what all programs get and,
// of the server's own variables, said, those that hold no secret.
func (p *pack) environment(said map[string]string) map[string]string {
	env := make(map[string]string)
	for name, value := range said {
		if !reference.Is(value) {
			env[name] = value
		}
	}
	maps.Copy(env, environment())
	for _, name := range p.given {
		if v := os.Getenv(name); v != "" {
			env[name] = v
		}
	}
	return env
}

// place is the folder of the guest that it is installed in.
func (p *pack) place() string { return path.Dir(path.Dir(p.program)) }

// same says whether what was installed is of the same package, of whatever version.
func (p *pack) same(was installation) bool { return was.Tool == p.tool && was.Name == p.name }

// String is what errors call the package.
func (p *pack) String() string { return fmt.Sprintf("%s package %s", p.tool, p.what) }
