"""The wire below the application: bounds that hold before anybody has shown a credential."""
