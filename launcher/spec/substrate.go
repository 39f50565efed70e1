package spec

import (
	"cmp"
	_ "embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Substrate is what a launcher registers about its part of the cluster file. Decoding, defaults, validation, the hash, flags, variables, the schema and
// the reference follow from it; nothing else names the launcher. docs/adding-a-launcher.md describes the steps.
type Substrate struct {
	// Name is the launcher's name, as `launcher:` and --launcher give it, and the key of its section. Title is how the substrate spells itself.
	Name, Title string
	// OtherNames are what people call it, in lower case: as the launcher of a file or a flag such a name is taken for Name.
	OtherNames []string
	// On is the place where its clusters run, for messages such as "Starting run x on Slurm".
	On string
	// Order is the place of the launcher's keys among those of the others. It decides the order of the JSON that Hash covers: it never changes once a
	// version with it is released.
	Order int
	// Source is the Go source of the types below: their comments are the text of the schema and the reference.
	Source string

	// Cluster, Node, Mount and GPUType are zero values of structs whose fields become keys of the file itself, of head and worker groups, of a mount's
	// source and of an entry of gpuTypes. nil adds nothing. Cluster has one field: a pointer to the section, with the launcher's name as key.
	Cluster, Node, Mount, GPUType any

	// ChosenBySection is true if the presence of the section chooses the launcher.
	ChosenBySection bool
	// Fallback is true for the launcher of files that choose none. rayctl always searches its clusters, in addition to those of the chosen launcher.
	Fallback bool
	// Flags are flags of all commands on clusters that set one key of the section.
	Flags []Flag
	// OtherFlags are flags of the substrate's own tools, without dashes, with the key of the section that has their meaning.
	OtherFlags map[string]string
	// Default fills in what the file leaves out once the launcher is chosen; then its section is never nil. May be nil.
	Default func(s *ClusterSpec)
	// Validate checks the section, and everything that has a special rule on the substrate if s.Launcher is its name;
	// may be nil.
	Validate func(v *Validator, s *ClusterSpec)
	// ValidateNode checks the resources of the head or of a group at path, if s.Launcher is the launcher's name; may be nil.
	ValidateNode func(v *Validator, s *ClusterSpec, path string, r *NodeResources)
	// MountExample is a source of a mount as people write it, for errors.
	MountExample string
	// ValidateMount checks the launcher's source of the mount at path, whatever s.Launcher is; may be nil.
	ValidateMount func(v *Validator, path string, m *Mount)
	// HashScope removes from a copy what Hash does not cover, such as how this client reaches the substrate; may be nil.
	HashScope func(s *ClusterSpec)
	// FreeText reports whether the value at a path may have several lines; may be nil.
	FreeText func(path string) bool
	// ReadManifest reads a file of another format that the launcher accepts in place of a cluster file; it returns nil if data has no such format. May be nil.
	ReadManifest func(name string, data []byte) (*Manifest, error)
	// Unused is a sentence about settings of the section that the launcher named in ignores; "" if there are none. May be nil.
	Unused func(s *ClusterSpec, in *Substrate) string

	// Ignored are sentences about keys outside of the section that the file, with defaults, sets and this launcher has no use for (package ignored); may be
	// nil if it uses all keys.
	Ignored func(s *ClusterSpec) []string
	// Here are the reasons why this machine cannot have what a valid file describes, where the nodes are this machine. It changes nothing. May be nil.
	Here func(s *ClusterSpec) Errors

	// InsteadOf are, by the name of an option of Ray that has no key (package rayoptions), what this launcher has in its place: a part of a sentence.
	InsteadOf map[string]string
	// PackagesKey is the key of the section with the packages that the launcher installs beside Ray; "" if it installs none.
	PackagesKey string
	// Environment is where that key's value is, in a file with defaults; nil for a file whose nodes run in an environment that the launcher does not make. May be nil.
	Environment func(s *ClusterSpec) *Requirements

	// SharesFilesystem reports whether the nodes have the client's directories; nil means that they do not.
	SharesFilesystem func(s *ClusterSpec) bool
	// UsesImage reports whether nodes run in containers of image; nil means that they do not.
	UsesImage func(s *ClusterSpec) bool
	// SecretKeys is true if secrets[].secretKeyRef is possible.
	SecretKeys bool
	// SingleNodes is true if nodes are allocated one by one, false if all at once.
	SingleNodes bool
	// EarlyHead is true if the head may start before the workers (head.early).
	EarlyHead bool
	// ExecHere is true if a command on a node is a process of this machine, such as ssh, which takes the client's streams.
	ExecHere bool
	// Python names the place of a job's Python packages in messages: the image, the nodes' Python.
	Python string
}

// Flag is a flag that sets one key of the cluster file.
type Flag struct{ Name, Key, Usage string }

// Manifest is a file of another format, as keys of a cluster file.
type Manifest struct {
	// File is the file's name as the user gave it, Kind what it holds.
	File, Kind string
	// Launcher is the name of the launcher that accepts the file.
	Launcher string
	// Keys are the file's content as keys of a cluster file.
	Keys []ManifestKey
	// Notes are sentences for the user about parts of the file that have no effect.
	Notes []string
	// Own are keys of the cluster file that the file decides itself, with all below them: variables and the default profile, which are for every file, do not count
	// there. Flags are errors.
	Own []string
}

// Decides reports whether the file decides a key itself.
func (m *Manifest) Decides(path string) bool {
	return m != nil && slices.ContainsFunc(m.Own, func(own string) bool { return path == own || strings.HasPrefix(path, own+".") })
}

// ManifestKey is a key of the cluster file with its value: text for keys with a single value, JSON for others.
type ManifestKey struct{ Path, Value string }

// ReadManifest reads a file of another format that a registered launcher accepts; it returns nil if data has no such format.
func ReadManifest(name string, data []byte) (*Manifest, error) {
	for _, s := range registered {
		if s.ReadManifest == nil {
			continue
		}
		if m, err := s.ReadManifest(name, data); m != nil || err != nil {
			return m, err
		}
	}
	return nil, nil
}

// registered are the substrates of this build, by Order. Package variables of the launchers fill it before main begins; it never changes afterwards.
var registered []*Substrate

// Register adds a launcher. Its package calls it in the declaration of a variable, so that importing the package registers the launcher.
func Register(s *Substrate) *Substrate {
	for _, other := range registered {
		if other.Name == s.Name || other.Order == s.Order {
			panic(fmt.Sprintf("the launchers %s and %s have the same name or order", other.Name, s.Name))
		}
	}
	registered = append(registered, s)
	slices.SortFunc(registered, func(a, b *Substrate) int { return cmp.Compare(a.Order, b.Order) })
	return s
}

// Substrates lists the registered launchers by Order.
func Substrates() []*Substrate { return slices.Clone(registered) }

// SubstrateOf finds a launcher by name; a name that is not registered has an empty Substrate with that name.
func SubstrateOf(name string) *Substrate {
	if i := slices.IndexFunc(registered, func(s *Substrate) bool { return s.Name == name }); i >= 0 {
		return registered[i]
	}
	return &Substrate{Name: name, Title: name, On: "with " + name}
}

// OtherFlag is the launcher, and the key of its section, that a flag of its substrate's tools means; "" if there is none.
func OtherFlag(name string) (launcher, key string) {
	for _, s := range registered {
		if key := s.OtherFlags[name]; key != "" {
			return s.Name, key
		}
	}
	return "", ""
}

// LauncherCalled is the launcher that people call so, else the name as it is.
func LauncherCalled(name string) string {
	for _, s := range registered {
		if slices.Contains(s.OtherNames, strings.ToLower(name)) {
			return s.Name
		}
	}
	return name
}

// LauncherMeant is the launcher that another name means, or the nearest; "" if there is none.
func LauncherMeant(name string) string {
	if called := LauncherCalled(name); called != name {
		return called
	}
	return Nearest(name, Launchers())
}

// Launchers are the names of the registered launchers by Order.
func Launchers() []string { return namesOf(func(*Substrate) bool { return true }) }

// ChosenBySection are the names of the launchers that the presence of their section chooses.
func ChosenBySection() []string {
	return namesOf(func(s *Substrate) bool { return s.ChosenBySection })
}

// Fallback is the name of the launcher of files that choose none.
func Fallback() string {
	names := namesOf(func(s *Substrate) bool { return s.Fallback })
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

func namesOf(which func(*Substrate) bool) (names []string) {
	for _, s := range registered {
		if which(s) {
			names = append(names, s.Name)
		}
	}
	return names
}

//go:embed types.go
var source string

// Sources are the Go sources with the comments of the file's types, by package: the one source of text for the code, the schema and the reference.
func Sources() map[string]string {
	all := map[string]string{corePackage: source}
	for _, s := range registered {
		if t := s.part("cluster"); t != nil {
			all[t.PkgPath()] = s.Source
		}
	}
	return all
}

// part is the struct type with the keys that the launcher adds at a place, which is the tag of a field of type Sections; nil if it adds none.
func (s *Substrate) part(place string) reflect.Type {
	return reflect.TypeOf(map[string]any{"cluster": s.Cluster, "node": s.Node, "mount": s.Mount, "gpuType": s.GPUType}[place])
}

// SharesFilesystem reports whether the nodes of the file's launcher have this machine's directories.
func SharesFilesystem(s *ClusterSpec) bool {
	shares := SubstrateOf(s.Launcher).SharesFilesystem
	return shares != nil && shares(s)
}
