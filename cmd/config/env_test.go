package config

import "testing"

// TestNamesSecret: --env notes variables whose names are those of secrets.
func TestNamesSecret(t *testing.T) {
	for name, want := range map[string]bool{
		"API_KEY": true, "HF_TOKEN": true, "AWS_SECRET_ACCESS_KEY": true, "db_password": true, "PASSWORD_FILE": true, "TOKEN": true,
		"TOKENIZERS_PARALLELISM": false, "MONKEY": false, "KEYBOARD": false, "KEY_COUNT": false, "": false,
	} {
		if namesSecret(name) != want {
			t.Errorf("%s: %t", name, !want)
		}
	}
}
